// Threads that wait for work: one for each GPU in a product with host vectors, because a transfer from ordinary memory
// keeps a thread busy.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace spmvgpu {

class Workers {
public:
    // Ends the threads. In a forked process they do not exist: nothing can be waited for, and the memory is not freed.
    struct End {
        void operator()(Workers* workers) const;
    };
    using Owner = std::unique_ptr<Workers, End>;

    // Gives parallel loops of each worker this many threads.
    static Owner start(int count, int threads_each) { return Owner(new Workers(count, threads_each)); }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    // Calls task(i) on worker i, for all of them, and own() on this thread meanwhile. Returns when all are done, and
    // then throws an exception of one of them. Only one thread may call it at a time.
    void run(const std::function<void(int)>& task, const std::function<void()>& own);

private:
    Workers(int count, int threads_each);
    ~Workers();
    void work(int number, int threads);
    void end() noexcept;

    std::mutex mutex_;
    std::condition_variable begun_, done_;
    const std::function<void(int)>* task_ = nullptr;
    std::uint64_t round_ = 0;  // number of the current task
    int unfinished_ = 0;
    bool ending_ = false;
    std::vector<std::exception_ptr> errors_;  // exceptions of each worker in this round
    std::vector<std::thread> threads_;
    int process_;  // the process that the threads belong to
};

}  // namespace spmvgpu
