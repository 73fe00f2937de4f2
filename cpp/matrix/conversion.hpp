// Conversion of a matrix from CSR to a format and back, between any devices.
#pragma once

#include <any>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "formats/all.hpp"
#include "matrix/any_matrix.hpp"

namespace spmvgpu {

// Facts about a format without a matrix.
struct FormatInfo {
    std::string name;
    std::vector<OptionInfo> options;  // with their defaults
    std::vector<Options> candidates;  // choices that tuning tries
    Traits traits;
};
std::vector<FormatInfo> list_formats();

Target target_of(Device device);

struct MatrixPlan {
    Cost cost;
    std::vector<OptionInfo> options;       // with every automatic choice made
    std::map<std::string, double> counts;  // see counts_of()
    std::any made;                         // the format's own plan
    index_t longest_row = 0;               // or 0, if it was not asked for

    // The time of a product, also with other options; infinite if they change the stored arrays.
    times::Time (*time_of)(const roofline::Subject&, const MatrixPlan&, const Options&) = nullptr;
};

// The matrix is canonical, in host memory or on a GPU. The target need not be present. Throws as convert() does.
template <class T>
MatrixPlan plan_matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options,
                       const Target& target);

// Where a matrix for a GPU is planned and converted: on the GPU itself, if the format can, or on the host. Both make
// the same arrays; the second exists for comparison.
enum class Builders { kOfDevice, kOfHost };

// A matrix in a format, and facts from its conversion.
template <class T>
struct FormatMatrix {
    AnyFormat<T> format;
    bool stores_in_order = false;          // see Cost
    std::map<std::string, double> counts;  // see counts_of()
    index_t longest_row = 0;
    SetupSeconds took;

    std::size_t bytes() const;  // of its arrays
};

// Converts a canonical CSR matrix in host memory, or on the device. Throws FormatError, UnknownOption,
// std::invalid_argument (unknown format or bad option), OutOfMemory or CudaError; nothing is left allocated then. A
// plan for the same matrix, format, options and target may be given, and is not made again.
template <class T>
FormatMatrix<T> convert(const CsrMatrix<T>& csr, const std::string& format, const Options& options, Device device,
                        Builders builders = Builders::kOfDevice, const MatrixPlan* planned = nullptr);

// The matrix in host memory, or on the device where it is stored, with values of its own, unless CSR may lend them. For
// a format without rows, see formats/rows.hpp, the latter goes through host memory.
template <class T>
CsrMatrix<T> read_csr(const AnyFormat<T>& stored);
template <class T>
CsrMatrix<T> read_csr_there(const AnyFormat<T>& stored, Device device, bool may_lend);

// The entries of a format on a GPU, listed there; none for a format without rows. Defined in matrix/read_csr.cu.
template <class T>
std::optional<CsrMatrix<T>> list_entries_on_gpu(const AnyFormat<T>& stored, int ordinal);

// True if a format is planned and converted on its target GPU.
template <class Format>
constexpr bool kBuildsOnGpu = kHasCuda&& Format::kTraits.builds_on_gpu;

}  // namespace spmvgpu
