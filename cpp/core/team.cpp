#include "core/team.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/interrupt.hpp"
#include "core/system.hpp"

namespace spmvgpu::team {

namespace {

constexpr int kMaxThreads = 128;

// Number of helpers that a participant wakes: with 16 at once, a team of 16 does not wait for one that is woken late to
// wake others.
constexpr int kFanOut = 16;

// How long a caller without work spins before it sleeps: about as long as waking it takes.
constexpr std::chrono::microseconds kSpin{20};

// How long a helper without work spins before it sleeps. Solvers and loops of products call again within microseconds,
// and waking takes as long as many of their loops. If it spun longer, NumPy's threads, which come next in solvers of
// SciPy, would wait for the core.
constexpr std::chrono::microseconds kStayAwake{12};

// How often a sleeping caller checks whether the user interrupts it.
constexpr std::chrono::milliseconds kLook{5};

void relax() {
#if defined(__SSE2__)
    _mm_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    asm volatile("yield");
#endif
}

// Spins until the condition is true, for a limited time, and returns the condition.
template <class Is>
bool look_for(std::chrono::microseconds time, const Is& is) {
    const auto end = std::chrono::steady_clock::now() + time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (is()) return true;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    return false;
}

// The C library makes a thread's local data when the thread first asks for it, and ends the process if there is no
// memory for that. This asks for the data that a piece and its exceptions need before there is any work.
void ask_for_thread_local_data() {
    if (SharedLoop::is_inside()) return;  // reads a thread's own variable
    try {
        throw Abandoned{};
    } catch (const Abandoned&) {
    }
}

// The pieces of one participant, which other participants take over when they have finished their own. A participant
// gets the same pieces in every product, so that its part of a matrix stays in its caches.
struct alignas(64) Range {
    std::atomic<std::int64_t> next;
    std::int64_t end;
};

struct Helper;

struct Job {
    const Work& work;
    int participants;  // number 0 is the caller
    Range ranges[kMaxThreads];
    Helper* helpers[kMaxThreads];
    std::atomic<bool> failed{false};
    std::exception_ptr error;

    Job(const Work& work, int participants) : work(work), participants(participants) {
        for (int i = 0; i < participants; ++i) {
            ranges[i].next.store(work.count * i / participants, std::memory_order_relaxed);
            ranges[i].end = work.count * (i + 1) / participants;
        }
    }

    void take_part(int number) {
        const SharedLoop loop(failed);
        for (int i = 0; i < participants; ++i) {
            Range& range = ranges[(number + i) % participants];
            while (!failed.load(std::memory_order_relaxed)) {
                if (range.next.load(std::memory_order_relaxed) >= range.end) break;
                const std::int64_t piece = range.next.fetch_add(1, std::memory_order_relaxed);
                if (piece >= range.end) break;
                run_piece(piece);
            }
        }
    }

    void call_children(int number) const;

    void look_for_interrupt() {
        if (failed.load(std::memory_order_relaxed)) return;
        attempt([] { check_interrupt(); });
    }

private:
    void run_piece(std::int64_t piece) {
        attempt([&] {
            check_interrupt();
            work.run(work.body, piece);
        });
    }

    // Keeps the first exception. Abandoned always comes later.
    template <class Action>
    void attempt(const Action& action) {
        try {
            action();
        } catch (...) {
            if (!failed.exchange(true)) error = std::current_exception();
        }
    }
};

struct alignas(64) Helper {
    enum State : int { kIdle, kCalled, kWorking };
    std::atomic<int> state{kIdle};
    Job* job = nullptr;          // while it is called or working
    int number = 0;              // among the job's participants
    std::atomic<int> thread{0};  // its number in the system, once it lives
    int avoided = -1;            // the core that it stays away from
    std::atomic<bool> stays_awake{false};

    void live() {
        system::ask_for_short_slice();
        ask_for_thread_local_data();
        thread = system::thread_number();
        while (true) {
            int now = kCalled;
            if (!state.compare_exchange_strong(now, kWorking, std::memory_order_acq_rel)) {
                const auto is_called = [this] { return state.load(std::memory_order_acquire) == kCalled; };
                if (stays_awake.load(std::memory_order_relaxed) && look_for(kStayAwake, is_called)) continue;
                stays_awake.store(false, std::memory_order_relaxed);
                state.wait(now, std::memory_order_acquire);
                continue;
            }
            job->call_children(number);
            job->take_part(number);
            stays_awake.store(true, std::memory_order_relaxed);
            // Sequentially consistent with the caller, which first announces that it sleeps and then checks whether
            // this is done.
            state.store(kIdle, std::memory_order_seq_cst);
            if (caller_sleeps.load(std::memory_order_seq_cst)) {
                const std::lock_guard lock(mutex);
                ended.notify_one();
            }
        }
    }

    void wait_until_idle(Job& own_job) {
        if (look_for(kSpin, [this] { return state.load(std::memory_order_acquire) != kWorking; })) return;
        caller_sleeps.store(true, std::memory_order_seq_cst);
        const auto is_idle = [this] { return state.load(std::memory_order_seq_cst) != kWorking; };
        for (bool done = false; !done;) {
            std::unique_lock lock(mutex);
            done = ended.wait_for(lock, kLook, is_idle);
            lock.unlock();
            if (!done) own_job.look_for_interrupt();
        }
        caller_sleeps.store(false, std::memory_order_relaxed);
    }

private:
    std::atomic<bool> caller_sleeps{false};
    std::mutex mutex;
    std::condition_variable ended;
};

// A participant wakes some helpers, they wake others, and so on: waking a thread takes some microseconds.
void Job::call_children(int number) const {
    for (int child = kFanOut * number + 1; child <= kFanOut * (number + 1) && child < participants; ++child) {
        helpers[child]->state.notify_one();
    }
}

// Keeps helpers away from the core of their caller, which they would take from it when woken there.
void keep_off_own_core(int count, Helper** helpers) {
    const int own = system::current_core();
    if (own < 0) return;
    int threads[kMaxThreads], moved = 0;
    for (int i = 0; i < count; ++i) {
        Helper& helper = *helpers[i];
        if (helper.avoided == own || helper.thread == 0) continue;
        helper.avoided = own;
        threads[moved++] = helper.thread;
    }
    if (moved > 0) system::keep_off_core(own, {threads, static_cast<std::size_t>(moved)});
}

class Team {
public:
    // Reserves up to `count` idle helpers and returns their number. There are twice as many as a loop needs, and they
    // work in two shifts, because the system prefers other threads to one that has just worked until they have caught
    // up.
    int take(int count, Helper** helpers) {
        const std::lock_guard lock(mutex_);
        while (static_cast<int>(idle_.size()) < 2 * count && started_ < 2 * kMaxThreads && start()) {
        }
        const int reserved = std::min(count, static_cast<int>(idle_.size()));
        std::ranges::stable_partition(idle_, [](const Helper* helper) { return helper->stays_awake.load(); });
        std::copy_n(idle_.begin(), reserved, helpers);
        idle_.erase(idle_.begin(), idle_.begin() + reserved);
        return reserved;
    }

    void give_back(int count, Helper** helpers) {
        const std::lock_guard lock(mutex_);
        idle_.insert(idle_.end(), helpers, helpers + count);
    }

private:
    bool start() {
        try {
            idle_.reserve(started_ + 1);  // so that release never fails
            auto* const helper = new Helper;
            try {
                std::thread([helper] { helper->live(); }).detach();
            } catch (const std::system_error&) {
                delete helper;
                return false;
            }
            idle_.push_back(helper);
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
    if (threads <= 1 || SharedLoop::is_inside()) {
        for (std::int64_t piece = 0; piece < work.count; ++piece) {
            check_interrupt();
            work.run(work.body, piece);
        }
        return;
    }
    Helper* helpers[kMaxThreads];
    const int reserved = whole_team().take(threads - 1, helpers);
    keep_off_own_core(reserved, helpers);
    Job job(work, reserved + 1);
    std::copy_n(helpers, reserved, job.helpers + 1);
    for (int i = 0; i < reserved; ++i) {
        helpers[i]->job = &job;
        helpers[i]->number = i + 1;
        helpers[i]->state.store(Helper::kCalled, std::memory_order_release);
    }
    job.call_children(0);
    job.take_part(0);
    for (int i = 0; i < reserved; ++i) {
        int now = Helper::kCalled;
        if (helpers[i]->state.compare_exchange_strong(now, Helper::kIdle, std::memory_order_acq_rel)) continue;
        helpers[i]->wait_until_idle(job);
    }
    whole_team().give_back(reserved, helpers);
    if (job.error) std::rethrow_exception(job.error);
}

}  // namespace spmvgpu::team
