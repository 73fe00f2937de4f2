// Streams of the library, for work that is more than a product on the caller's stream.
#pragma once

#include <functional>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::gpu {

// A stream that waits for no other, from a process-wide pool, to which it returns with its last owner. A matrix keeps
// scratch memory per stream, so there should be no more streams than are in use at once. Null on the CPU.
std::shared_ptr<void> lease_stream(Device device);

// A point in the work of a stream. One that was never recorded counts as over; on the CPU none is recorded. If a stream
// may be the default one, its device must be current.
class Event {
public:
    Event();  // for streams of the current GPU
    explicit Event(Device device);

    // The point is the end of what the stream holds now. If the stream is recorded, each replay sets the point, with
    // `by_replays`; otherwise it is one within the recorded work.
    void record(Stream stream, bool by_replays = false);
    // Work that is queued from now on, on a stream of any device, comes after the point; each replay after what the
    // point is then, with `by_replays`.
    void hold_back(Stream stream, bool by_replays = false) const;
    void synchronize() const;  // the host waits for the point
    bool is_over() const;
    bool operator==(const Event&) const = default;

private:
    std::shared_ptr<void> event_;
};

// A copy in the order of the stream, between any two of device memory and page-locked host memory.
void copy_async(void* to, const void* from, std::size_t bytes, Stream stream);

// Makes copy_async() work between memory that is allocated on two GPUs from now on, also if neither can access the
// other's memory.
void allow_copies(Device device, Device other);

// Lets two GPUs access each other's memory, if they can, so that copies do not go through the host.
void allow_peer_access(Device device, Device other);

// Orders work that is queued on `stream` from now on after the work that is queued on `other` now. One that may be the
// default stream is on the current device.
void order_after(Stream stream, Stream other);

// Work recorded once, as a CUDA graph, and launched as often as wanted.
class Replay {
public:
    // Calls queue_work(), which queues work on `stream`, and records that work instead of running it. The work must
    // have run once before, for its first allocations.
    Replay(Stream stream, const std::function<void()>& queue_work);

    void launch() const;

private:
    Stream stream_;
    std::shared_ptr<void> graph_;
};

}  // namespace spmvgpu::gpu
