// Matrix<T>: one sparse matrix in one format on one device, behind a single type. It walks the variant AnyFormat<T>
// and knows no format by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "cuda/runtime.hpp"
#include "cuda/transfer.hpp"
#include "formats/all.hpp"

namespace spmvgpu {

// What is known about a format without a matrix.
struct FormatInfo {
    std::string name;
    std::vector<OptionInfo> options;  // with their defaults
    std::vector<Options> candidates;  // what tuning tries
};
std::vector<FormatInfo> list_formats();

// What a short series of products showed, and how many products that took.
struct Trial {
    double microseconds = 0;
    int products = 0;
};

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

    // y = alpha*A*x + beta*y with x and y on the matrix's device. On a GPU it returns once the work is queued on
    // `stream`.
    void spmv(const Product<T>& product, Stream stream) const;

    // The same with x and y in host memory, whatever the device. Complete when it returns.
    void spmv_host(const Product<T>& product) const;

    // Declares that products with this very x follow, unchanged: a format that gathers x then does so once (per
    // stream), until the next call; nullptr ends it. Throws UnknownOption if the format does not gather.
    void set_x(const T* x);

    // Microseconds of one product in a series: device time on a GPU, wall time on the CPU; the median of `repeats`.
    double time_products(int repeats) const;

    // The same in a hurry, for comparing formats: at most 13 products of a matrix beyond a million non-zeros.
    Trial try_products() const;

    Csr<T> to_csr() const;  // in host memory

    std::string format() const;
    Device device() const { return device_; }
    index_t rows() const;
    index_t cols() const;
    index_t nnz() const;
    std::size_t nbytes() const;               // device memory held: arrays, scratch and the vectors of spmv_host
    std::vector<OptionInfo> options() const;  // in force, with automatic choices resolved
    SetupSeconds setup_seconds() const { return setup_; }
    const AnyFormat<T>& storage() const { return storage_; }

private:
    // Scratch space is private to a stream, whose work is ordered; so products on several streams never meet in it.
    // Threads that share a stream take turns, so that the kernels of one product stay together. Some memory is set
    // aside for streams to come, because nothing can be allocated on a stream that is being captured into a graph.
    struct Workspace {
        std::mutex in_use;
        Array<char> memory;
        std::uint64_t gathered = 0;  // version of x that was gathered into it, or 0
    };
    Workspace* workspace(Stream stream) const;  // nullptr if the format needs none
    void set_memory_aside(int streams) const;

    bool gathers_on_host() const;
    // Number of the set_x that declared this x; 0 if none did, or another one after it.
    std::uint64_t version_of(const T* x) const;
    void launch(Product<T> product, Stream stream, std::uint64_t x_version) const;
    double time_series(const cuda::Series& series) const;

    AnyFormat<T> storage_;
    Device device_;
    SetupSeconds setup_;

    // Made by the first spmv_host on a GPU.
    mutable std::once_flag exchange_made_;
    mutable std::unique_ptr<cuda::HostExchange<T>> exchange_;
    mutable std::mutex exchange_mutex_;
    mutable std::uint64_t sent_version_ = 0;  // version of x that the device has from the product before, or 0

    mutable std::mutex workspaces_mutex_;
    mutable std::map<Stream, Workspace> workspaces_;
    mutable std::vector<Array<char>> set_aside_;

    mutable std::mutex x_mutex_;
    const T* declared_x_ = nullptr;
    std::uint64_t declared_version_ = 0;
};

}  // namespace spmvgpu
