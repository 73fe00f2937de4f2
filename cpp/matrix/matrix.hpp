// Matrix<T>: one sparse matrix in one format on one device, behind a single type. It walks the variant AnyFormat<T>
// and knows no format by name.
#pragma once

#include <any>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.hpp"
#include "core/options.hpp"
#include "formats/all.hpp"
#include "gpu/transfer.hpp"
#include "matrix/any_matrix.hpp"
#include "matrix/column_exchange.hpp"
#include "matrix/row_copies.hpp"
#include "matrix/value_updates.hpp"
#include "matrix/vector_copies.hpp"
#include "matrix/workspaces.hpp"

namespace spmvgpu {

// What is known about a format without a matrix.
struct FormatInfo {
    std::string name;
    std::vector<OptionInfo> options;  // with their defaults
    std::vector<Options> candidates;  // what tuning tries
    Traits traits;
};
std::vector<FormatInfo> list_formats();

Target target_of(Device device);

// What a format would do with a matrix.
struct MatrixPlan {
    Cost cost;
    std::vector<OptionInfo> options;  // with every automatic choice made
    std::any made;                    // the format's own plan
};

// Of a canonical matrix in host memory or on a GPU. The target need not be there. Throws as the constructor of Matrix
// does.
template <class T>
MatrixPlan plan_matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options,
                       const Target& target);

// What plans and converts a matrix for a GPU: the GPU itself, where the format can, or the host. Both make the same
// arrays; the second is there to be compared with.
enum class Builders { kOfDevice, kOfHost };

template <class T>
class Matrix : public AnyMatrix<T> {
public:
    // Converts a canonical CSR matrix in host memory, or on the device. Throws FormatError, UnknownOption,
    // std::invalid_argument (unknown format or bad option), OutOfMemory or CudaError; nothing is left allocated then.
    // Of what was planned for the same matrix, format, options and target, the plan need not be made again.
    Matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options, Device device,
           Builders builders = Builders::kOfDevice, const MatrixPlan* planned = nullptr);

    void spmv(const Product<T>& product, Stream stream) const override;
    void check_spmv() const override;
    void spmv_host(const Product<T>& product) const override;
    bool takes_rows() const override;
    bool panels_are_worth_copies(index_t vectors) const override;
    void set_x(const T* x) override;
    double time_products(const Series& series) const override;

    CsrMatrix<T> to_csr() const;  // in host memory

    // Replaces the values by others in CSR order, which lie in host memory or on the device; as if it had been built
    // with them. Returns once that is done, and waits for everything on the device before. No product may be under way
    // elsewhere. The first call may keep a map, see value_map_bytes(). Arrays may lie elsewhere afterwards. Throws
    // std::invalid_argument if the values are too few or too many or lie elsewhere, FormatError if the format does not
    // hold them, OutOfMemory or CudaError; the values are as before then, but after an error of the device.
    void update_values(const Array<T>& values);
    std::size_t value_map_bytes() const;  // of what says where values in CSR order belong

    std::string format() const;
    Device device() const override { return device_; }
    index_t rows() const override;
    index_t cols() const override;
    std::int64_t nnz() const override;
    std::size_t nbytes() const override;
    std::vector<OptionInfo> options() const;       // in force, with automatic choices resolved
    std::map<std::string, double> counts() const;  // of the plan's cost
    SetupSeconds setup_seconds() const override { return setup_; }
    index_t longest_row() const { return longest_row_; }
    index_t dot_parts() const;     // that its products on a GPU leave at Product::dots; 0 if they do not
    AnyFormat<T> storage() const;  // which shares the arrays

private:
    template <class Format>
    SetupSeconds convert(const CsrMatrix<T>& csr, const MatrixPlan* planned, Device builder);
    std::size_t array_bytes() const;
    bool gathers_on_host() const;
    // Number of the set_x that declared this x; 0 if none did, or another one after it.
    std::uint64_t version_of(const T* x) const;
    void launch(Product<T> product, Stream stream, std::uint64_t x_version) const;

    AnyFormat<T> storage_;
    Device device_;
    Options options_;  // as asked for
    index_t longest_row_ = 0;
    bool stores_in_order_ = false;  // see Cost
    std::map<std::string, double> counts_;
    SetupSeconds setup_;

    mutable Mutex values_mutex_;  // of update_values() and of what it changes, but for products
    ValueUpdates<T> new_values_;

    mutable ColumnExchange<T> column_exchange_;
    mutable VectorCopies<T> vector_copies_;
    mutable RowCopies<T> row_copies_;
    mutable cuda::LazyExchange<T> exchange_;
    mutable Mutex exchange_mutex_;
    mutable std::uint64_t sent_version_ = 0;  // version of x that the device has from the product before, or 0

    mutable std::optional<Workspaces> workspaces_;  // made last by the constructor

    mutable Mutex x_mutex_;
    std::atomic<const T*> declared_x_ = nullptr;  // atomic for the sake of forks: see set_x
    std::atomic<std::uint64_t> declared_version_ = 0;
};

}  // namespace spmvgpu
