#include "routes.hpp"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <linux/openat2.h>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

using std::string_view;

namespace {

Reply refusal(string_view status) {
    return {.status = status, .text = std::string(status) + '\n'};
}

bool is_digits(string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == string_view::npos;
}

// Half of a decimal number of any length, by long division.
std::optional<std::string> half(string_view number) {
    const bool is_negative = number.starts_with('-');
    if (is_negative) number.remove_prefix(1);
    const auto point = number.find('.');
    const auto whole = number.substr(0, point);
    const auto fraction = point == string_view::npos ? "0" : number.substr(point + 1);
    if (!is_digits(whole) || !is_digits(fraction)) return std::nullopt;
    std::string result;
    int rest = 0;
    const auto divide = [&](string_view digits) {
        for (const char digit : digits) {
            const int value = rest * 10 + (digit - '0');
            result += static_cast<char>('0' + value / 2);
            rest = value % 2;
        }
    };
    divide(whole);
    result.erase(0, std::min(result.find_first_not_of('0'), result.size() - 1));
    result += '.';
    divide(fraction);
    divide("0");  // takes up the last remainder: halves end in 5
    result.erase(result.find_last_not_of('0') + 1);
    if (result.ends_with('.')) result.pop_back();
    return is_negative && result != "0" ? '-' + result : result;
}

// Steps of a 64-bit linear congruential generator. The empty statement changes the state as far as
// the compiler knows, so that it keeps every step.
std::string work(std::uint64_t ops) {
    std::uint64_t state = 1;
    for (; ops > 0; --ops) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        asm volatile("" : "+r"(state));
    }
    char text[32];
    std::snprintf(text, sizeof text, "%016llx\n", static_cast<unsigned long long>(state));
    return text;
}

Reply answer_work(string_view query) {
    std::uint64_t ops = 0;
    if (!query.starts_with("ops=")) return refusal("400 Bad Request");
    query.remove_prefix(4);
    const auto [end, error] = std::from_chars(query.begin(), query.end(), ops);
    if (error != std::errc{} || end != query.end()) return refusal("400 Bad Request");
    return {.text = work(ops)};
}

Reply answer_div(string_view number) {
    auto found = half(number);
    return found ? Reply{.text = std::move(*found)} : refusal("400 Bad Request");
}

// Opens what is below a folder, whatever the path says (openat2(2), RESOLVE_BENEATH).
Descriptor open_beneath(int folder, const std::string& path) {
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    return Descriptor(static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how)));
}

}  // namespace

Routes::Routes(const std::string& folder) {
    if (folder.empty()) return;
    root_ = Descriptor(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_) throw std::system_error(errno, std::generic_category(), folder);
}

Reply Routes::answer(string_view method, string_view target) const {
    if (method != "GET") return refusal("405 Method Not Allowed");
    const auto mark = target.find('?');
    const auto path = target.substr(0, mark);
    const auto query = mark == string_view::npos ? string_view{} : target.substr(mark + 1);
    if (path == "/hello") return {.text = "Hello, World!"};
    if (path == "/work") return answer_work(query);
    if (path.starts_with("/div/")) return answer_div(path.substr(5));
    if (root_ && path.starts_with("/static/")) return file(path.substr(8));
    return refusal("404 Not Found");
}

Reply Routes::file(string_view path) const {
    const std::string name(path.empty() ? "index.html" : path);
    Descriptor found = open_beneath(root_.get(), name);
    struct stat status {};
    if (!found || fstat(found.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return refusal("404 Not Found");
    }
    Reply reply;
    if (name.ends_with(".html")) reply.media_type = "text/html; charset=utf-8";
    reply.file = std::move(found);
    reply.length = static_cast<std::size_t>(status.st_size);
    return reply;
}
