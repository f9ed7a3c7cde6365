#include "http.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>

using std::string_view;

namespace {

constexpr string_view line_end = "\r\n";
constexpr string_view head_end = "\r\n\r\n";

bool equal(string_view one, string_view other) {
    const auto same = [](unsigned char a, unsigned char b) { return tolower(a) == tolower(b); };
    return std::ranges::equal(one, other, same);
}

string_view trim(string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

void read_field(Request& request, string_view line) {
    const auto colon = line.find(':');
    if (colon == string_view::npos) return;
    const auto name = line.substr(0, colon), value = trim(line.substr(colon + 1));
    if (equal(name, "connection")) {
        if (equal(value, "close")) request.keep_alive = false;
        if (equal(value, "keep-alive")) request.keep_alive = true;
    } else if (equal(name, "transfer-encoding")) {
        request.has_body = true;
    } else if (equal(name, "content-length")) {
        request.has_body |= value != "0";
    }
}

// The Date field, made once a second by each thread.
string_view date() {
    thread_local std::time_t made = 0;
    thread_local char text[64];
    thread_local std::size_t length = 0;
    const auto now = std::time(nullptr);
    if (now != made) {
        std::tm utc{};
        gmtime_r(&now, &utc);
        length = std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
        made = now;
    }
    return {text, length};
}

}  // namespace

std::optional<std::size_t> head_length(string_view bytes) {
    const auto end = bytes.find(head_end);
    if (end == string_view::npos) return std::nullopt;
    return end + head_end.size();
}

std::optional<Request> parse(string_view head) {
    auto end = head.find(line_end);
    const auto line = head.substr(0, end);
    const auto first = line.find(' '), last = line.rfind(' ');
    if (first == string_view::npos || first == last) return std::nullopt;
    const auto version = line.substr(last + 1);
    const bool is_old = version == "HTTP/1.0";
    if (!is_old && version != "HTTP/1.1") return std::nullopt;
    Request request{line.substr(0, first), line.substr(first + 1, last - first - 1), !is_old, is_old, false};
    while (true) {
        head.remove_prefix(end + line_end.size());
        end = head.find(line_end);
        if (end == 0 || end == string_view::npos) return request;
        read_field(request, head.substr(0, end));
    }
}

void write_head(std::string& out, const Request& request, string_view status,
                string_view media_type, std::size_t length) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, length).ptr;
    out.append("HTTP/1.1 ").append(status).append(line_end);
    out.append("Content-Type: ").append(media_type).append(line_end);
    out.append("Content-Length: ").append(digits, end).append(line_end).append(date());
    if (!request.keep_alive) {
        out.append("Connection: close\r\n");
    } else if (request.is_old) {
        out.append("Connection: keep-alive\r\n");
    }
    out.append(line_end);
}
