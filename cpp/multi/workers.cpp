#include "multi/workers.hpp"

#include <stdexcept>

#include "core/parallel.hpp"
#include "core/system.hpp"

namespace spmvgpu {

Workers::Workers(int count, int threads_each) : errors_(count), process_(system::process_number()) {
    try {
        for (int number = 0; number < count; ++number) {
            threads_.emplace_back([this, number, threads_each] { work(number, threads_each); });
        }
    } catch (...) {  // the limit of threads is reached
        end();
        throw;
    }
}

void Workers::End::operator()(Workers* workers) const {
    if (system::process_number() == workers->process_) delete workers;
}

Workers::~Workers() { end(); }

void Workers::end() noexcept {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    begun_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Workers::run(const std::function<void(int)>& task, const std::function<void()>& own) {
    if (system::process_number() != process_) {
        throw std::runtime_error("an operator on GPUs cannot be used in a process that was forked off; make one there");
    }
    {
        const std::lock_guard lock(mutex_);
        task_ = &task;
        unfinished_ = static_cast<int>(threads_.size());
        ++round_;
    }
    begun_.notify_all();
    std::exception_ptr error;
    try {
        own();
    } catch (...) {
        error = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return unfinished_ == 0; });
    for (std::exception_ptr& thrown : errors_) {
        if (!error) error = thrown;
        thrown = nullptr;
    }
    if (error) std::rethrow_exception(error);
}

void Workers::work(int number, int threads) {
    const ThreadLimit limit(threads);
    std::uint64_t finished = 0;
    while (true) {
        std::unique_lock lock(mutex_);
        begun_.wait(lock, [&] { return ending_ || round_ != finished; });
        if (ending_) return;
        finished = round_;
        const auto& task = *task_;
        lock.unlock();
        std::exception_ptr error;
        try {
            task(number);
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        errors_[number] = error;
        if (--unfinished_ == 0) done_.notify_one();
    }
}

}  // namespace spmvgpu
