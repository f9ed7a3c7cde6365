// What the server answers: short text made here, or a file.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "socket.hpp"

struct Reply {
    std::string_view status = "200 OK";
    std::string_view media_type = "text/plain; charset=utf-8";
    std::string text = {};
    Descriptor file{};  // sent instead of the text
    std::size_t length = 0;  // of the file
};

class Routes {
public:
    // Serves the files of a folder below /static/; of none if it has no name.
    explicit Routes(const std::string& folder);

    Reply answer(std::string_view method, std::string_view target) const;

private:
    Reply file(std::string_view path) const;

    Descriptor root_;
};
