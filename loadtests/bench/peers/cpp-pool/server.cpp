#include "server.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <vector>

#include "http.hpp"

namespace {

constexpr std::size_t most_events = 256;
constexpr std::size_t most_head = 16 << 10;

}  // namespace

Server::Server(const std::string& address, const std::string& folder)
    : listener_(listen_on(address)), poll_(epoll_create1(EPOLL_CLOEXEC)), routes_(folder) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr;  // every connection has another one
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) {
        throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
}

void Server::run(unsigned workers) {
    std::vector<std::jthread> pool;
    for (; workers > 0; --workers) pool.emplace_back([this] { work(); });
    std::array<epoll_event, most_events> events;
    std::vector<Connection*> ready;
    while (true) {
        const int count = epoll_wait(poll_.get(), events.data(), most_events, -1);
        ready.clear();
        for (int number = 0; number < count; ++number) {
            auto* connection = static_cast<Connection*>(events[static_cast<std::size_t>(number)].data.ptr);
            if (connection) {
                ready.push_back(connection);
            } else {
                accept_all();
            }
        }
        queue_.push(ready);
    }
}

void Server::accept_all() {
    while (true) {
        Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) return;
        // A reply is sent at once, not when the one before it was acknowledged.
        const int on = 1;
        setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        auto connection = std::make_unique<Connection>(Connection{std::move(socket)});
        // From then on the poll set owns it.
        if (watch(*connection, EPOLL_CTL_ADD)) static_cast<void>(connection.release());
    }
}

// Reports the connection once when it has sent something (epoll_ctl(2), EPOLLONESHOT).
bool Server::watch(Connection& connection, int operation) const {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
    event.data.ptr = &connection;
    return epoll_ctl(poll_.get(), operation, connection.socket.get(), &event) == 0;
}

void Server::work() {
    while (true) {
        std::unique_ptr<Connection> connection(queue_.pop());
        if (!serve(*connection)) continue;
        // Another worker may have it as soon as it is watched.
        auto* const watched = connection.release();
        if (!watch(*watched, EPOLL_CTL_MOD)) delete watched;
    }
}

// Reads what has come and answers it; false when the connection is to be closed.
bool Server::serve(Connection& connection) const {
    thread_local std::array<char, most_head> buffer;
    const ssize_t count = recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    const std::string_view arrived(buffer.data(), static_cast<std::size_t>(count));
    if (connection.received.empty()) return answer(connection, arrived);
    const std::string joined = std::exchange(connection.received, {}).append(arrived);
    return answer(connection, joined);
}

// Answers every request that is whole; short replies go out together.
bool Server::answer(Connection& connection, std::string_view bytes) const {
    const int socket = connection.socket.get();
    thread_local std::string out;  // keeps its memory from one connection to the next
    out.clear();
    while (const auto length = head_length(bytes)) {
        auto request = parse(bytes.substr(0, *length));
        bytes.remove_prefix(*length);
        if (!request) return false;
        // A body is not read, so nothing can follow it.
        request->keep_alive &= !request->has_body;
        const Reply reply = routes_.answer(request->method, request->target);
        write_head(out, *request, reply.status, reply.media_type, reply.file ? reply.length : reply.text.size());
        if (reply.file) {
            if (!send_all(socket, out, true) || !send_file(socket, reply.file.get(), reply.length)) return false;
            out.clear();
        } else {
            out += reply.text;
        }
        if (!request->keep_alive) {
            send_all(socket, out);
            return false;
        }
    }
    connection.received.assign(bytes);
    return bytes.size() < most_head && send_all(socket, out);
}
