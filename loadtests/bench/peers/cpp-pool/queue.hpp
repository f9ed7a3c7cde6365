// The shared queue: first in, first out, behind one mutex and one condition variable.

#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>

template <typename T>
class Queue {
public:
    // Adds to the end, under one lock, and wakes as many threads as have something to do.
    void push(std::span<const T> items) {
        if (items.empty()) return;
        std::size_t to_wake = 0;
        {
            const std::lock_guard lock(mutex_);
            waiting_.insert(waiting_.end(), items.begin(), items.end());
            to_wake = std::min(items.size(), idle_);
        }
        // Who is not idle looks at the queue before it waits.
        for (; to_wake > 0; --to_wake) added_.notify_one();
    }

    // Takes from the front; waits while there is nothing.
    T pop() {
        std::unique_lock lock(mutex_);
        ++idle_;
        added_.wait(lock, [this] { return !waiting_.empty(); });
        --idle_;
        T item = waiting_.front();
        waiting_.pop_front();
        return item;
    }

private:
    std::mutex mutex_;
    std::condition_variable added_;
    std::deque<T> waiting_;
    std::size_t idle_ = 0;
};
