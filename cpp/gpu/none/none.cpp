// Stands in for the CUDA backend in a build without it: there are no devices, and asking for one says why.
#include "core/errors.hpp"
#include "gpu/csr_passes.hpp"
#include "gpu/gather.hpp"
#include "gpu/nccl.hpp"
#include "gpu/pool.hpp"
#include "gpu/residency.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/transfer.hpp"
#include "gpu/transpose.hpp"

namespace spmvgpu::cuda {

namespace {

[[noreturn]] void unavailable() {
    throw CudaError(
        "spmvgpu was built without CUDA: install the CUDA Toolkit (nvcc) and reinstall, or give device='cpu'");
}

}  // namespace

int device_count() noexcept { return 0; }
std::string version() { return "none"; }
const Properties& properties(int) { unavailable(); }
std::string pci_bus_id(int) { unavailable(); }
Memory memory(int) { unavailable(); }
void require_memory(std::size_t, int) { unavailable(); }
std::shared_ptr<void> allocate(std::size_t, int) { unavailable(); }
void copy(void*, Device, const void*, Device, std::size_t) { unavailable(); }
void set_zero(void*, std::size_t, int) { unavailable(); }
void synchronize(Stream, int) { unavailable(); }
void synchronize_device(int) { unavailable(); }
bool is_capturing(Stream) { unavailable(); }
Device device_of(const void*) { return {}; }
double time_launches(const std::function<void(Stream)>&, const Series&, int) { unavailable(); }
DeviceGuard::DeviceGuard(int) { unavailable(); }
void release_idle_memory(int) { unavailable(); }
index_t longest_row(index_t, const index_t*, int) { unavailable(); }
bool is_canonical(index_t, index_t, index_t, const index_t*, const index_t*, int) { unavailable(); }
double clustering(index_t, const index_t*, const index_t*, int) { unavailable(); }
DeviceGuard::~DeviceGuard() = default;

template <class T>
Residency csr_vector_residency(int) {
    unavailable();
}
template <class T>
Residency ell_residency(int) {
    unavailable();
}

std::shared_ptr<void> allocate_pinned(std::size_t) { unavailable(); }
bool is_pinned(const void*, std::size_t) { return false; }

void Staging::upload(void*, const void*, std::size_t, Stream) { unavailable(); }
void Staging::upload(void*, const Fill&, std::size_t, Stream) { unavailable(); }
void Staging::download(const Drain&, const void*, std::size_t, Stream) { unavailable(); }

template <class T>
HostExchange<T>::HostExchange(index_t, index_t, int) {
    unavailable();
}
template <class T>
void HostExchange<T>::begin(const Product<T>&, const Crossing&) {
    unavailable();
}
template <class T>
void HostExchange<T>::finish(const Product<T>&, bool) {
    unavailable();
}

template <class T>
void gather(T*, const T*, const index_t*, index_t, int, Stream, std::int64_t) {
    unavailable();
}
template void gather(index_t*, const index_t*, const index_t*, index_t, int, Stream, std::int64_t);
template <class T>
void scatter(T*, const T*, const index_t*, index_t, T, int, Stream, std::int64_t) {
    unavailable();
}
template <class T>
CsrMatrix<T> transpose(const CsrMatrix<T>&) {
    unavailable();
}
template <class Number>
Array<Number> take_every(const Number*, std::int64_t, std::int64_t, int) {
    unavailable();
}
template Array<index_t> take_every(const index_t*, std::int64_t, std::int64_t, int);
template <class T>
Array<index_t> order_by_clusters(const CsrMatrix<T>&) {
    unavailable();
}
template <class T>
CsrMatrix<T> reordered(const CsrMatrix<T>&, const Array<index_t>&) {
    unavailable();
}
template <class T>
Array<index_t> entries_before(const CsrMatrix<T>&, const Array<index_t>&) {
    unavailable();
}
template <class T>
void columns_to_rows(T*, const Columns<const T>&, const index_t*, index_t, int, Stream) {
    unavailable();
}
template <class T>
void rows_to_columns(const Columns<T>&, const T*, const index_t*, index_t, T, int, Stream) {
    unavailable();
}
#define INSTANTIATE(T)                                                                                   \
    template void columns_to_rows(T*, const Columns<const T>&, const index_t*, index_t, int, Stream);    \
    template void rows_to_columns(const Columns<T>&, const T*, const index_t*, index_t, T, int, Stream); \
    template CsrMatrix<T> transpose(const CsrMatrix<T>&);                                                \
    template Array<T> take_every(const T*, std::int64_t, std::int64_t, int);                             \
    template Array<index_t> order_by_clusters(const CsrMatrix<T>&);                                      \
    template CsrMatrix<T> reordered(const CsrMatrix<T>&, const Array<index_t>&);                         \
    template Array<index_t> entries_before(const CsrMatrix<T>&, const Array<index_t>&);                  \
    template Residency csr_vector_residency<T>(int);                                                     \
    template Residency ell_residency<T>(int);                                                            \
    template class HostExchange<T>;                                                                      \
    template void gather(T*, const T*, const index_t*, index_t, int, Stream, std::int64_t);              \
    template void scatter(T*, const T*, const index_t*, index_t, T, int, Stream, std::int64_t);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

std::shared_ptr<void> lease_stream(int) { unavailable(); }
Event::Event() { unavailable(); }
void Event::record(Stream) { unavailable(); }
void Event::hold_back(Stream) const { unavailable(); }
void Event::synchronize() const { unavailable(); }
NcclId NcclCommunicator::make_id(const std::string&) { unavailable(); }
NcclCommunicator::NcclCommunicator(const std::string&, const NcclId&, int, int, int) { unavailable(); }
int NcclCommunicator::version(const std::string&) { unavailable(); }
void NcclCommunicator::exchange(const std::vector<NcclMessage>&, const std::vector<NcclMessage>&, Stream) const {
    unavailable();
}

void copy_async(void*, const void*, std::size_t, Stream) { unavailable(); }
void allow_peer_access(int, int) { unavailable(); }
void order_after(Stream, Stream) { unavailable(); }

}  // namespace spmvgpu::cuda
