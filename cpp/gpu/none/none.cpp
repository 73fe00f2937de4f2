// The interface in a build without CUDA: there is no GPU, and a request for one gets an error that says why.
#include "core/errors.hpp"
#include "gpu/keeping.hpp"
#include "gpu/memory.hpp"
#include "gpu/residency.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::gpu {

namespace {

[[noreturn]] void unavailable() {
    throw CudaError(
        "spmvgpu was built without CUDA: install the CUDA Toolkit (nvcc) and reinstall, or give device='cpu'");
}

void require_cpu(Device device) {
    if (device.is_gpu()) unavailable();
}

}  // namespace

int device_count() noexcept { return 0; }
Driver driver() { return {}; }
std::string version() { return "none"; }
Device device_of(const void*) { return {}; }
bool is_pinned(const void*, std::size_t) { return false; }
bool is_capturing(Stream, Device) { return false; }

const Properties& properties(int) { unavailable(); }
std::string pci_bus_id(int) { unavailable(); }
std::uint64_t policy_to_keep(double, int) { unavailable(); }
Memory memory(int) { unavailable(); }
void release_idle_memory(int) { unavailable(); }
std::shared_ptr<void> allocate(std::size_t, int) { unavailable(); }
std::shared_ptr<void> allocate_pinned(std::size_t) { unavailable(); }
void copy(void*, Device, const void*, Device, std::size_t) { unavailable(); }
void copy_async(void*, const void*, std::size_t, Stream) { unavailable(); }
void set_zero(void*, std::size_t, int) { unavailable(); }
void order_after(Stream, Stream) { unavailable(); }
Event::Event() { unavailable(); }
template <class T>
Residency csr_vector_residency(int) {
    unavailable();
}
template <class T>
Residency ell_residency(int) {
    unavailable();
}
template Residency csr_vector_residency<float>(int);
template Residency csr_vector_residency<double>(int);
template Residency ell_residency<float>(int);
template Residency ell_residency<double>(int);

void require_memory(std::size_t, Device device) { require_cpu(device); }
void synchronize(Stream, Device device) { require_cpu(device); }
void synchronize_device(Device device) { require_cpu(device); }
void allow_copies(Device, Device) {}
void allow_peer_access(Device, Device) {}
DeviceGuard::DeviceGuard(Device device) { require_cpu(device); }
DeviceGuard::~DeviceGuard() = default;
std::shared_ptr<void> lease_stream(Device device) {
    require_cpu(device);
    return {};
}
Event::Event(Device device) { require_cpu(device); }
void Event::record(Stream, bool) {}
void Event::hold_back(Stream, bool) const {}
void Event::synchronize() const {}
bool Event::is_over() const { return true; }
Replay::Replay(Stream, const std::function<void()>&) { unavailable(); }
void Replay::launch() const {}

}  // namespace spmvgpu::gpu
