// Streams of our own, for work that is more than a product on the caller's stream. Only built with CUDA.
#pragma once

#include <functional>
#include <memory>

#include "core/types.hpp"

namespace spmvgpu::cuda {

// A stream that waits for no other, from a process-wide pool; it goes back there with its last owner. A matrix keeps
// scratch memory per stream, so there should be no more streams than are in use at once.
std::shared_ptr<void> lease_stream(int ordinal);

// What is queued on `stream` from now on comes after what is queued on `other` now; both on the current device.
void order_after(Stream stream, Stream other);

// Work recorded once, as a CUDA graph, and launched as often as wanted.
class Replay {
public:
    // Calls queue_work(), which queues work on `stream`, and records that work instead of running it. It must have been
    // queued once before, for whatever a first time allocates.
    Replay(Stream stream, const std::function<void()>& queue_work);

    void launch() const;

private:
    Stream stream_;
    std::shared_ptr<void> graph_;
};

}  // namespace spmvgpu::cuda
