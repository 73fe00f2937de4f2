// What the threads of a loop do when it fails or is interrupted, step by step: no step waits for a time to be over.
//
// Usage: team CASE; silent if all is well. Whoever runs it ends it if it hangs.
#include "core/team.hpp"

#include <atomic>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/interrupt.hpp"

namespace {

using spmvgpu::check_interrupt;

std::thread::id caller;
std::function<void()> signal_handler = [] {};  // what the caller's thread looks for, as Python's does for signals

void look() {
    if (std::this_thread::get_id() == caller) signal_handler();
}

struct Interrupted : std::runtime_error {
    Interrupted() : std::runtime_error("interrupted") {}
};

void run(int pieces, int threads, const std::function<void(std::int64_t)>& body) {
    const auto call = [](const void* b, std::int64_t piece) {
        (*static_cast<const std::function<void(std::int64_t)>*>(b))(piece);
    };
    spmvgpu::team::run({pieces, call, &body}, threads);
}

void wait_for(const std::atomic<int>& count, int value) {
    while (count < value) std::this_thread::yield();
}

// A piece that only ends when it is told to.
void never_ending_piece() {
    while (true) check_interrupt();
}

void expect(bool holds, const char* what) {
    if (!holds) throw std::logic_error(what);
}

template <class Error>
std::string caught(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    throw std::logic_error("nothing was thrown");
}

// One piece throws while another is at work.
void failure() {
    std::atomic<int> begun = 0;
    const std::string what = caught<std::invalid_argument>([&] {
        run(2, 2, [&](std::int64_t piece) {
            ++begun;
            wait_for(begun, 2);
            if (piece == 0) throw std::invalid_argument("the first piece");
            never_ending_piece();
        });
    });
    expect(what == "the first piece", "not what the piece threw");
}

// The signal comes while the caller has nothing left to do and waits for a helper.
void interrupted_caller() {
    std::atomic<int> begun = 0, helper_works = 0;
    signal_handler = [&] {
        if (helper_works > 0) throw Interrupted();
    };
    caught<Interrupted>([&] {
        run(2, 2, [&](std::int64_t) {
            ++begun;
            wait_for(begun, 2);
            if (std::this_thread::get_id() == caller) return;
            helper_works = 1;
            never_ending_piece();
        });
    });
}

// The signal comes while all of them are in the middle of a piece.
void interrupted_piece() {
    std::atomic<int> begun = 0;
    signal_handler = [&] {
        if (begun == 4) throw Interrupted();
    };
    caught<Interrupted>([&] {
        run(4, 4, [&](std::int64_t) {
            ++begun;
            never_ending_piece();
        });
    });
}

// The loop fails while the caller, in the middle of a piece, is in a signal handler, which has a loop of its own.
void handler_with_loop() {
    std::atomic<int> begun = 0, in_handler = 0, abandoned = 0, first = 0, done = 0;
    signal_handler = [&] {
        if (begun < 3 || in_handler.exchange(1) == 1) return;
        wait_for(abandoned, 1);
        run(8, 2, [&](std::int64_t) {
            check_interrupt();
            ++done;
        });
    };
    const std::string what = caught<std::invalid_argument>([&] {
        run(3, 3, [&](std::int64_t) {
            ++begun;
            if (std::this_thread::get_id() == caller) never_ending_piece();
            wait_for(in_handler, 1);
            if (first.exchange(1) == 0) throw std::invalid_argument("a helper");
            try {
                never_ending_piece();
            } catch (const spmvgpu::Abandoned&) {
                abandoned = 1;
                throw;
            }
        });
    });
    expect(what == "a helper", "not what the helper threw");
    expect(done == 8, "the handler's loop was cut short");
}

// After all of these the team works as before.
void afterwards() {
    signal_handler = [] {};
    for (int repeat = 0; repeat < 100; ++repeat) {
        std::atomic<int> sum = 0;
        run(100, 4, [&](std::int64_t piece) {
            check_interrupt();
            sum += static_cast<int>(piece);
        });
        expect(sum == 4950, "not every piece was done once");
    }
}

}  // namespace

int main(int count, char** arguments) {
    caller = std::this_thread::get_id();
    spmvgpu::set_interrupt_check(look);
    const std::string name = count > 1 ? arguments[1] : "";
    try {
        if (name == "failure")
            failure();
        else if (name == "interrupted_caller")
            interrupted_caller();
        else if (name == "interrupted_piece")
            interrupted_piece();
        else if (name == "handler_with_loop")
            handler_with_loop();
        else
            throw std::logic_error("no such case");
        afterwards();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
        return 1;
    }
    return 0;
}
