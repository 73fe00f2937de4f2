#include <vector>

#include "core/mutex.hpp"
#include "core/parallel.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/pool.hpp"
#include "gpu/memory.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/timing.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::gpu {

int device_count() noexcept {
    int count = 0;  // unchanged by a failing call
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return count;
}

Driver driver() {
    Driver driver;  // unchanged by failing calls
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver.version);
    cudaRuntimeGetVersion(&driver.needed);
    cudaGetLastError();
    const bool is_missing = status == cudaErrorInsufficientDriver && driver.version == 0;
    if (status != cudaSuccess && status != cudaErrorNoDevice && !is_missing) {
        driver.error = failure(status, "cudaGetDeviceCount");
    }
    return driver;
}

std::string version() {
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    return std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10);
}

const Properties& properties(int ordinal) {
    static Mutex mutex;
    static std::vector<std::unique_ptr<Properties>> known;
    const std::lock_guard lock(mutex);
    if (known.empty()) known.resize(device_count());
    if (ordinal < 0 || ordinal >= static_cast<int>(known.size())) {
        throw CudaError("cuda:" + std::to_string(ordinal) + " is not there: this machine has " +
                        std::to_string(known.size()) + " usable CUDA device(s); give device='cpu' or 'auto'");
    }
    if (!known[ordinal]) {
        cudaDeviceProp read;
        check(cudaGetDeviceProperties(&read, ordinal), "cudaGetDeviceProperties");
        const auto attribute = [ordinal](cudaDeviceAttr asked) {
            int value = 0;
            check(cudaDeviceGetAttribute(&value, asked, ordinal), "cudaDeviceGetAttribute");
            return static_cast<double>(value);
        };
        constexpr double kBitsPerByte = 8, kPerCycle = 2, kKilo = 1e3;  // memory moves at both edges of its clock
        known[ordinal] = std::make_unique<Properties>(
            Properties{read.name, read.multiProcessorCount, read.major, read.minor,
                       static_cast<std::size_t>(read.l2CacheSize), kKilo * attribute(cudaDevAttrClockRate),
                       kPerCycle * kKilo * attribute(cudaDevAttrMemoryClockRate) *
                           attribute(cudaDevAttrGlobalMemoryBusWidth) / kBitsPerByte});
    }
    return *known[ordinal];
}

std::string pci_bus_id(int ordinal) {
    char id[32];
    check(cudaDeviceGetPCIBusId(id, sizeof(id), ordinal), "cudaDeviceGetPCIBusId");
    return id;
}

Memory memory(int ordinal) {
    const DeviceGuard guard(ordinal);
    Memory memory;
    check(cudaMemGetInfo(&memory.free, &memory.total), "cudaMemGetInfo");
    memory.idle = idle_bytes(ordinal);
    return memory;
}

void require_memory(std::size_t bytes, Device device) {
    if (!device.is_gpu()) return;
    const Memory found = memory(device.ordinal);
    // Memory that is idle between arrays that are in use may not be released, and has room for others.
    if (bytes > found.free + found.idle) throw OutOfMemory(device.name(), bytes, found.free + found.idle);
}

void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
    if (!from_device.is_gpu()) {
        // For matrices, which are uploaded once; operators have their own staging for the vectors of their products.
        const DeviceGuard guard(to_device);
        Staging staging;  // lives until the data have arrived: another thread may fill its buffers afterwards
        staging.upload(to, from, bytes, nullptr);
        check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        return;
    }
    const DeviceGuard guard(from_device);
    constexpr std::size_t kLeastStaged = 1 << 20;
    if (!to_device.is_gpu() && bytes >= kLeastStaged && !is_pinned(to, bytes)) {
        Staging staging;
        staging.download([to](const void* chunk, std::size_t begin,
                              std::size_t size) { streaming_copy(static_cast<char*>(to) + begin, chunk, size); },
                         from, bytes, nullptr);
        return;
    }
    if (to_device.is_gpu()) {
        allow_peer_access(to_device, from_device);
        // On a stream of its own, so that a copy does not wait for others that read the same GPU.
        const auto leased = lease_stream(to_device);
        order_after(leased.get(), nullptr);  // queued work on the data is done
        // The devices are named: a copy between plain addresses fails where neither may read the other's pool.
        check(cudaMemcpyPeerAsync(to, to_device.ordinal, from, from_device.ordinal, bytes, native(leased.get())),
              "cudaMemcpyPeerAsync");
        return synchronize(leased.get(), to_device);  // which a copy on a GPU does not do itself
    }
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

void set_zero(void* memory, std::size_t bytes, int ordinal) {
    const DeviceGuard guard(ordinal);
    check(cudaMemset(memory, 0, bytes), "cudaMemset");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void synchronize(Stream stream, Device device) {
    if (!device.is_gpu()) return;
    const DeviceGuard guard(device);
    check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
}

// The driver cuts small blocks from large ones, and maps a large one for the first small one: a block that stays saves
// 100 us each time that another comes and goes.
static void keep_small_block(int ordinal) {
    static Mutex mutex;
    static std::vector<void*> kept(device_count());
    const std::lock_guard lock(mutex);
    if (kept[ordinal] != nullptr) return;
    if (cudaMalloc(&kept[ordinal], 1) != cudaSuccess) cudaGetLastError();  // later calls take longer then
}

void synchronize_device(Device device) {
    if (!device.is_gpu()) return;
    const DeviceGuard guard(device);
    const RelaxedCaptures relaxed;
    keep_small_block(device.ordinal);
    // cudaDeviceSynchronize breaks the captures of all threads; cudaFree waits as well, and does not.
    void* token = nullptr;
    const cudaError_t status = cudaMalloc(&token, 1);
    if (status == cudaErrorMemoryAllocation) {  // the device has less than that
        cudaGetLastError();
        return check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    check(status, "cudaMalloc");
    check(cudaFree(token), "cudaFree");
}

bool is_capturing(Stream stream, Device device) {
    if (!device.is_gpu()) return false;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(native(stream), &status) == cudaSuccess) return status != cudaStreamCaptureStatusNone;
    cudaGetLastError();
    return true;  // the default stream, while another one is captured
}

Device device_of(const void* pointer) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
        cudaGetLastError();
        return {};
    }
    const bool on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    return on_device ? Device{attributes.device} : Device{};
}

double time_on_gpu(const std::function<void(Stream)>& launch, const Series& series, int ordinal) {
    const DeviceGuard guard(ordinal);
    const std::shared_ptr<void> leased = lease_stream(ordinal);
    const cudaStream_t stream = native(leased.get());
    launch(stream);
    const Replay batch(stream, [&] {
        for (int i = 0; i < series.batch; ++i) launch(stream);
    });
    cudaEvent_t start, stop;
    check(cudaEventCreate(&start), "cudaEventCreate");
    check(cudaEventCreate(&stop), "cudaEventCreate");

    std::vector<double> times;
    for (int i = -series.warmups; i < series.repeats; ++i) {
        float milliseconds = 0;
        check(cudaEventRecord(start, stream), "cudaEventRecord");
        batch.launch();
        check(cudaEventRecord(stop, stream), "cudaEventRecord");
        check(cudaEventSynchronize(stop), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
        if (i >= 0) times.push_back(1000.0 * milliseconds / series.batch);
    }
    check(cudaEventDestroy(start), "cudaEventDestroy");
    check(cudaEventDestroy(stop), "cudaEventDestroy");
    return median(std::move(times));
}

DeviceGuard::DeviceGuard(Device device) {
    if (!device.is_gpu()) return;
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    if (current == device.ordinal) return;
    check(cudaSetDevice(device.ordinal), "cudaSetDevice");
    previous_ = current;
}

DeviceGuard::~DeviceGuard() {
    if (previous_ != Device::kCpu) cudaSetDevice(previous_);
}

}  // namespace spmvgpu::gpu
