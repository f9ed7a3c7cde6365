#include "socket.hpp"

#include <cerrno>
#include <netdb.h>
#include <poll.h>
#include <stdexcept>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace {

// As the other peers; the kernel caps it at net.core.somaxconn.
constexpr int backlog = 4096;

// A client that takes nothing for so long is given up: it keeps a worker.
constexpr int patience_ms = 10'000;

// Whether an incomplete send may go on, waiting for room if need be.
bool may_go_on(int socket) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) return false;
    pollfd room{socket, POLLOUT, 0};
    return poll(&room, 1, patience_ms) > 0;
}

}  // namespace

Descriptor::~Descriptor() {
    if (number_ >= 0) close(number_);
}

Descriptor listen_on(const std::string& address) {
    const auto colon = address.rfind(':');
    if (colon == std::string::npos) throw std::invalid_argument("--listen must be HOST:PORT");
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const auto host = address.substr(0, colon), port = address.substr(colon + 1);
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found)) {
        throw std::invalid_argument(address + ": " + gai_strerror(error));
    }
    Descriptor listener(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool listens = bind(listener.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                         listen(listener.get(), backlog) == 0;
    freeaddrinfo(found);
    if (!listens) throw std::system_error(errno, std::generic_category(), address);
    return listener;
}

bool send_all(int socket, std::string_view bytes, bool more) {
    while (!bytes.empty()) {
        const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
        const ssize_t sent = send(socket, bytes.data(), bytes.size(), flags);
        if (sent >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (!may_go_on(socket)) {
            return false;
        }
    }
    return true;
}

bool send_file(int socket, int file, std::size_t length) {
    off_t offset = 0;
    while (static_cast<std::size_t>(offset) < length) {
        const auto left = length - static_cast<std::size_t>(offset);
        const ssize_t sent = sendfile(socket, file, &offset, left);
        // A file that has become shorter cannot be sent as announced.
        if (sent == 0 || (sent < 0 && !may_go_on(socket))) return false;
    }
    return true;
}
