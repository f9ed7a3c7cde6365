// Requests without a body, and the head of replies (RFC 9112).

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

struct Request {
    std::string_view method;
    std::string_view target;
    bool keep_alive;  // whether the connection stays open after the reply
    bool is_old;      // HTTP/1.0, which has to be told that it stays open
    bool has_body;
};

// The length of the head that `bytes` begin with, its last empty line included; none while it is
// not whole.
std::optional<std::size_t> head_length(std::string_view bytes);

// Reads a head; none if it is not one of HTTP/1.0 or HTTP/1.1.
std::optional<Request> parse(std::string_view head);

// Writes status line and fields; the body of `length` bytes follows.
void write_head(std::string& out, const Request& request, std::string_view status,
                std::string_view media_type, std::size_t length);
