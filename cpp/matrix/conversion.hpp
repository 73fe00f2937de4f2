// How a matrix in CSR becomes one in a format and back, wherever it is and the format is for.
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
    std::vector<OptionInfo> options;       // with every automatic choice made
    std::map<std::string, double> counts;  // see counts_of()
    std::any made;                         // the format's own plan

    // Microseconds of a product, and of one with other options; infinite if they change what is stored.
    double (*time_us)(const roofline::Subject&, const MatrixPlan&, const Options&) = nullptr;
};

// Of a canonical matrix in host memory or on a GPU. The target need not be there. Throws as convert() does.
template <class T>
MatrixPlan plan_matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options,
                       const Target& target);

// What plans and converts a matrix for a GPU: the GPU itself, where the format can, or the host. Both make the same
// arrays; the second is there to be compared with.
enum class Builders { kOfDevice, kOfHost };

// A matrix in a format, and what was found out while it was converted.
template <class T>
struct Stored {
    AnyFormat<T> format;
    bool stores_in_order = false;          // see Cost
    std::map<std::string, double> counts;  // see counts_of()
    index_t longest_row = 0;
    SetupSeconds took;

    std::size_t bytes() const;  // of its arrays
};

// Converts a canonical CSR matrix in host memory, or on the device. Throws FormatError, UnknownOption,
// std::invalid_argument (unknown format or bad option), OutOfMemory or CudaError; nothing is left allocated then. Of
// what was planned for the same matrix, format, options and target, the plan need not be made again.
template <class T>
Stored<T> convert(const CsrMatrix<T>& csr, const std::string& format, const Options& options, Device device,
                  Builders builders = Builders::kOfDevice, const MatrixPlan* planned = nullptr);

// The matrix in host memory, or on the device where it is stored, with values of its own. Of a format without rows, see
// formats/rows.hpp, the latter goes by host memory.
template <class T>
CsrMatrix<T> read_csr(const AnyFormat<T>& stored);
template <class T>
CsrMatrix<T> read_csr_there(const AnyFormat<T>& stored, Device device);

// The entries of a format that is on a GPU, which are listed there; nothing of one without rows. Defined in
// matrix/read_csr.cu.
template <class T>
std::optional<CsrMatrix<T>> list_entries_on_gpu(const AnyFormat<T>& stored, int ordinal);

// Whether a format is planned and converted on the GPU that it is for.
template <class Format>
constexpr bool kBuildsOnGpu = kHasCuda&& Format::kTraits.builds_on_gpu;

}  // namespace spmvgpu
