// A file descriptor that is closed with its owner, and the two ways to send on a socket.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor();

    int get() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }

private:
    int number_;
};

// A listening socket on HOST:PORT that does not block.
Descriptor listen_on(const std::string& address);

// Sends all of it; with `more` the kernel waits for what follows (send(2), MSG_MORE). False when
// the client is gone or takes nothing for too long.
bool send_all(int socket, std::string_view bytes, bool more = false);

// Sends a file's first bytes from the page cache (sendfile(2)).
bool send_file(int socket, int file, std::size_t length);
