#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/pool.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"

namespace spmvgpu::gpu {

namespace {

struct IdleStreams {
    Mutex mutex;
    std::map<int, std::vector<cudaStream_t>> of_device;
};

IdleStreams& idle_streams() {
    static IdleStreams* const instance = new IdleStreams;  // never destroyed: at exit the driver goes first
    return *instance;
}

}  // namespace

std::shared_ptr<void> lease_stream(Device device) {
    if (!device.is_gpu()) return {};
    const int ordinal = device.ordinal;
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

Event::Event() {
    cudaEvent_t event;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    event_ = {event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); }};
}

Event::Event(Device device) {
    if (!device.is_gpu()) return;
    const DeviceGuard guard(device);
    *this = Event();
}

void Event::record(Stream stream, bool by_replays) {
    if (event_ == nullptr) return;
    const unsigned flags = by_replays ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(static_cast<cudaEvent_t>(event_.get()), native(stream), flags),
          "cudaEventRecordWithFlags");
}

void Event::hold_back(Stream stream, bool by_replays) const {
    if (event_ == nullptr) return;
    const unsigned flags = by_replays ? cudaEventWaitExternal : cudaEventWaitDefault;
    check(cudaStreamWaitEvent(native(stream), static_cast<cudaEvent_t>(event_.get()), flags), "cudaStreamWaitEvent");
}

void Event::synchronize() const {
    if (event_ == nullptr) return;
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event_.get())), "cudaEventSynchronize");
}

bool Event::is_over() const {
    if (event_ == nullptr) return true;
    const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event_.get()));
    if (status == cudaErrorNotReady) return false;
    check(status, "cudaEventQuery");
    return true;
}

void order_after(Stream stream, Stream other) {
    Event reached;
    reached.record(other);
    reached.hold_back(stream);
}

void copy_async(void* to, const void* from, std::size_t bytes, Stream stream) {
    if (bytes == 0) return;
    // This is not cudaMemcpyPeerAsync, which cannot be captured into a graph: addresses determine the devices.
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "cudaMemcpyAsync");
}

static bool can_read(int ordinal, int other) {
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, ordinal, other), "cudaDeviceCanAccessPeer");
    return possible != 0;
}

static void let_read(int ordinal, int other) {
    if (!can_read(ordinal, other)) return;
    const DeviceGuard guard(ordinal);
    const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
    } else {
        check(status, "cudaDeviceEnablePeerAccess");
    }
    share_pool(ordinal, other);
}

void allow_copies(Device device, Device other) {
    if (!device.is_gpu() || !other.is_gpu() || device == other) return;
    if (can_read(device.ordinal, other.ordinal) && can_read(other.ordinal, device.ordinal)) return;
    leave_pool(device.ordinal);
    leave_pool(other.ordinal);
}

void allow_peer_access(Device device, Device other) {
    if (!device.is_gpu() || !other.is_gpu() || device == other) return;
    static Mutex mutex;
    static std::set<std::pair<int, int>> allowed;
    const std::lock_guard lock(mutex);
    const std::pair<int, int> pair = std::minmax(device.ordinal, other.ordinal);
    if (allowed.contains(pair)) return;
    let_read(pair.first, pair.second);
    let_read(pair.second, pair.first);
    allowed.insert(pair);
}

Replay::Replay(Stream stream, const std::function<void()>& queue_work) : stream_(stream) {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
        queue_work();
    } catch (...) {
        cudaStreamEndCapture(native(stream), &recorded);  // otherwise the stream would stay unusable
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

}  // namespace spmvgpu::gpu
