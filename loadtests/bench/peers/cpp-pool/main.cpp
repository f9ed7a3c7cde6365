// A server as many are written: an accept loop, one queue of connections behind a mutex and a
// condition variable, and N worker threads, here with keep-alive.

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sysexits.h>

#include "server.hpp"

namespace {

struct Options {
    std::string listen = {};
    std::string folder = {};
    unsigned threads = 1;
};

Options read(int count, char** words) {
    Options options;
    for (int number = 1; number + 1 < count; number += 2) {
        const std::string_view name = words[number];
        const std::string value = words[number + 1];
        if (name == "--listen") {
            options.listen = value;
        } else if (name == "--static") {
            options.folder = value;
        } else if (name == "--threads") {
            options.threads = static_cast<unsigned>(std::stoul(value));
        } else {
            throw std::invalid_argument("there is no option " + std::string(name));
        }
    }
    if (options.listen.empty() || options.threads == 0) {
        throw std::invalid_argument("usage: --listen HOST:PORT --threads N [--static FOLDER], N from 1");
    }
    return options;
}

// As many open files as are allowed: each connection is one.
void raise_limit() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int main(int count, char** words) {
    try {
        const Options options = read(count, words);
        raise_limit();
        Server(options.listen, options.folder).run(options.threads);
    } catch (const std::invalid_argument& error) {
        std::cerr << "cpp-pool: " << error.what() << '\n';
        return EX_USAGE;
    } catch (const std::exception& error) {
        std::cerr << "cpp-pool: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
