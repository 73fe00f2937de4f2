#include <map>
#include <mutex>
#include <vector>

#include "cuda/check.hpp"
#include "cuda/runtime.hpp"
#include "cuda/stream.hpp"

namespace spmvgpu::cuda {

namespace {

struct IdleStreams {
    std::mutex mutex;
    std::map<int, std::vector<cudaStream_t>> of_device;
};

IdleStreams& idle_streams() {
    static IdleStreams* const instance = new IdleStreams;  // never destroyed: at exit the driver goes first
    return *instance;
}

}  // namespace

std::shared_ptr<void> lease_stream(int ordinal) {
    IdleStreams& idle = idle_streams();
    cudaStream_t stream = nullptr;
    {
        const std::lock_guard lock(idle.mutex);
        auto& streams = idle.of_device[ordinal];
        if (!streams.empty()) {
            stream = streams.back();
            streams.pop_back();
        }
    }
    if (stream == nullptr) {
        const DeviceGuard guard(ordinal);
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    return {stream, [&idle, ordinal](void* used) {
                const std::lock_guard lock(idle.mutex);
                idle.of_device[ordinal].push_back(static_cast<cudaStream_t>(used));
            }};
}

void order_after(Stream stream, Stream other) {
    cudaEvent_t event;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    const cudaError_t recorded = cudaEventRecord(event, native(other));
    const cudaError_t waiting = recorded == cudaSuccess ? cudaStreamWaitEvent(native(stream), event, 0) : recorded;
    cudaEventDestroy(event);  // takes effect once the event has been reached
    check(recorded, "cudaEventRecord");
    check(waiting, "cudaStreamWaitEvent");
}

Replay::Replay(Stream stream, const std::function<void()>& queue_work) : stream_(stream) {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
        queue_work();
    } catch (...) {
        cudaStreamEndCapture(native(stream), &recorded);  // or nothing could use the stream any more
        if (recorded != nullptr) cudaGraphDestroy(recorded);
        throw;
    }
    check(cudaStreamEndCapture(native(stream), &recorded), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&executable, recorded, 0);
    cudaGraphDestroy(recorded);
    check(instantiated, "cudaGraphInstantiate");
    graph_ = {executable, [](void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }};
}

void Replay::launch() const {
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_.get()), native(stream_)), "cudaGraphLaunch");
}

}  // namespace spmvgpu::cuda
