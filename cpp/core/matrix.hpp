// Matrix<T>: one sparse matrix in one format on one device, behind a single type. It walks the variant AnyFormat<T>
// and knows no format by name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "cuda/transfer.hpp"
#include "formats/all.hpp"

namespace spmvgpu {

// What is known about a format without a matrix.
struct FormatInfo {
    std::string name;
    std::vector<OptionInfo> options;    // with their defaults
    std::vector<Options> candidates;    // what tuning tries
};
std::vector<FormatInfo> list_formats();

struct SetupSeconds {
    double convert = 0, transfer = 0;
};

template <class T>
class Matrix {
public:
    // Converts a canonical CSR matrix in host memory. Throws FormatError, UnknownOption, std::invalid_argument (unknown
    // format or bad option), OutOfMemory or CudaError; nothing is left allocated then.
    Matrix(const Csr<T>& csr, const std::string& format, const Options& options, Device device);

    static Estimate estimate(const Csr<T>& csr, const std::string& format, const Options& options);

    // y = alpha*A*x + beta*y with x and y on the matrix's device. On a GPU it returns once the work is queued on `stream`.
    void spmv(const Product<T>& product, Stream stream) const;

    // The same with x and y in host memory, whatever the device. Complete when it returns.
    void spmv_host(const Product<T>& product) const;

    // Microseconds of one product in a series: device time on a GPU, wall time on the CPU; the median of `repeats`.
    double time_products(int repeats) const;

    Csr<T> to_csr() const;  // in host memory

    std::string format() const;
    Device device() const { return device_; }
    index_t rows() const;
    index_t cols() const;
    index_t nnz() const;
    std::size_t nbytes() const;  // device memory held: arrays, scratch and the vectors of spmv_host
    std::vector<OptionInfo> options() const;  // in force, with automatic choices resolved
    SetupSeconds setup_seconds() const { return setup_; }
    const AnyFormat<T>& storage() const { return storage_; }

private:
    Array<char> make_scratch() const;
    void* scratch(Stream stream) const;

    AnyFormat<T> storage_;
    Device device_;
    SetupSeconds setup_;

    // Made by the first spmv_host on a GPU.
    mutable std::once_flag exchange_made_;
    mutable std::unique_ptr<cuda::HostExchange<T>> exchange_;

    // Scratch space is private to a stream, whose work is ordered; so products on several streams never meet in it. Some is
    // made in advance, because nothing can be allocated on a stream that is being captured into a graph.
    mutable std::mutex scratch_mutex_;
    mutable std::vector<Array<char>> unused_scratch_;
    mutable std::map<Stream, Array<char>> scratch_;
};

}  // namespace spmvgpu
