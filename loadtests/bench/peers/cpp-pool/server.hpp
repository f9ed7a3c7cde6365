// One thread waits for connections and for what they send; those that have sent something go into
// the shared queue, from which the workers take them.

#pragma once

#include <string>

#include "queue.hpp"
#include "routes.hpp"
#include "socket.hpp"

// A client's connection. At any time one of the poll set, the queue and a worker has it.
struct Connection {
    Descriptor socket;
    std::string received = {};  // a head that is not whole yet
};

class Server {
public:
    Server(const std::string& address, const std::string& folder);

    // Serves with so many workers beside the calling thread. Does not return.
    [[noreturn]] void run(unsigned workers);

private:
    void accept_all();
    [[noreturn]] void work();
    bool serve(Connection& connection) const;
    bool answer(Connection& connection, std::string_view bytes) const;
    bool watch(Connection& connection, int operation) const;

    Descriptor listener_;
    Descriptor poll_;
    Routes routes_;
    Queue<Connection*> queue_;
};
