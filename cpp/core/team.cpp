#include "core/team.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace spmvgpu::team {

namespace {

constexpr int kMaxThreads = 128;

// How long a thread that has nothing to do looks for more before it sleeps: about as long as waking it takes.
constexpr std::chrono::microseconds kSpin{20};

thread_local bool is_inside = false;  // of a piece

void relax() {
#ifdef __SSE2__
    _mm_pause();
#endif
}

// Waits until `word` is not `value` any more, first awake and then asleep.
void wait_while(const std::atomic<int>& word, int value) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
        for (int i = 0; i < 32; ++i) {
            if (word.load(std::memory_order_acquire) != value) return;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    word.wait(value, std::memory_order_acquire);
}

// The pieces of one participant, which the others take from when they have done their own. A participant gets the same
// ones in every product, so that its part of a matrix stays in its caches.
struct alignas(64) Range {
    std::atomic<std::int64_t> next;
    std::int64_t end;
};

struct Helper;

struct Job {
    const Work& work;
    int participants;  // number 0 is the caller
    Range ranges[kMaxThreads];
    Helper* helpers[kMaxThreads];  // from number 1 on
    std::atomic<bool> failed{false};
    std::exception_ptr error;

    Job(const Work& work, int participants) : work(work), participants(participants) {
        for (int i = 0; i < participants; ++i) {
            ranges[i].next.store(work.count * i / participants, std::memory_order_relaxed);
            ranges[i].end = work.count * (i + 1) / participants;
        }
    }

    void take_part(int number) {
        is_inside = true;
        for (int i = 0; i < participants; ++i) {
            Range& range = ranges[(number + i) % participants];
            while (!failed.load(std::memory_order_relaxed)) {
                if (range.next.load(std::memory_order_relaxed) >= range.end) break;
                const std::int64_t piece = range.next.fetch_add(1, std::memory_order_relaxed);
                if (piece >= range.end) break;
                run_piece(piece);
            }
        }
        is_inside = false;
    }

    void call_children(int number) const;

private:
    void run_piece(std::int64_t piece) {
        try {
            work.run(work.body, piece);
        } catch (...) {
            if (!failed.exchange(true)) error = std::current_exception();
        }
    }
};

// A thread of the team.
struct alignas(64) Helper {
    enum State : int { kIdle, kCalled, kWorking };
    std::atomic<int> state{kIdle};
    Job* job = nullptr;  // while it is called or working
    int number = 0;      // among the job's participants

    void live() {
        while (true) {
            int now = kCalled;
            if (!state.compare_exchange_strong(now, kWorking, std::memory_order_acq_rel)) {
                wait_while(state, now);
                continue;
            }
            job->call_children(number);
            job->take_part(number);
            state.store(kIdle, std::memory_order_release);
            state.notify_one();  // the caller, should it wait
        }
    }
};

// A participant wakes two others, those wake two each, and so on: waking takes a thread some microseconds.
void Job::call_children(int number) const {
    for (int child = 2 * number + 1; child <= 2 * number + 2 && child < participants; ++child) {
        helpers[child]->state.notify_one();
    }
}

class Team {
public:
    // Takes up to `count` idle helpers; their number.
    int take(int count, Helper** helpers) {
        const std::lock_guard lock(mutex_);
        while (static_cast<int>(idle_.size()) < count && started_ < kMaxThreads - 1 && start()) {
        }
        const int taken = std::min(count, static_cast<int>(idle_.size()));
        for (int i = 0; i < taken; ++i) helpers[i] = idle_[idle_.size() - 1 - i];
        idle_.resize(idle_.size() - taken);
        return taken;
    }

    void give_back(int count, Helper** helpers) {
        const std::lock_guard lock(mutex_);
        for (int i = count - 1; i >= 0; --i) idle_.push_back(helpers[i]);
    }

private:
    // Whether another thread could be started.
    bool start() {
        try {
            idle_.reserve(started_ + 1);  // so that giving back never fails
            auto* const helper = new Helper;
            try {
                std::thread([helper] { helper->live(); }).detach();
            } catch (const std::system_error&) {
                delete helper;
                return false;
            }
            idle_.insert(idle_.begin(), helper);
            ++started_;
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    std::mutex mutex_;
    std::vector<Helper*> idle_;
    int started_ = 0;
};

// Never destroyed: its threads sleep until the process ends.
Team& whole_team() {
    static Team* const team = new Team;
    return *team;
}

}  // namespace

void run(const Work& work, int threads) {
    threads = static_cast<int>(std::min<std::int64_t>({threads, work.count, kMaxThreads}));
    if (threads <= 1 || is_inside) {
        for (std::int64_t piece = 0; piece < work.count; ++piece) work.run(work.body, piece);
        return;
    }
    Helper* helpers[kMaxThreads];
    const int taken = whole_team().take(threads - 1, helpers);
    Job job(work, taken + 1);
    std::copy_n(helpers, taken, job.helpers + 1);
    for (int i = 0; i < taken; ++i) {
        helpers[i]->job = &job;
        helpers[i]->number = i + 1;
        helpers[i]->state.store(Helper::kCalled, std::memory_order_release);
    }
    job.call_children(0);
    job.take_part(0);
    for (int i = 0; i < taken; ++i) {
        int now = Helper::kCalled;
        if (helpers[i]->state.compare_exchange_strong(now, Helper::kIdle, std::memory_order_acq_rel)) continue;
        wait_while(helpers[i]->state, Helper::kWorking);
    }
    whole_team().give_back(taken, helpers);
    if (job.error) std::rethrow_exception(job.error);
}

}  // namespace spmvgpu::team
