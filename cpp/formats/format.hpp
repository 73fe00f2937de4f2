// The contract of a format: the members that formats/<f>/layout.hpp must define, and on which the rest of the library
// relies. It is checked over the list in all.hpp, so a member that is forgotten or misspelt does not compile.
//
// A format is plain data and a few functions. It takes in a matrix in three steps:
//     plan(csr, tuning, target)   decides everything that is left open, from the tuning to the layout, and says what
//                                 it costs; throws FormatError if the format does not suit the matrix
//     from_csr(csr, plan)         stores the matrix as planned
//     spmv, spmv_cuda             multiply, and decide nothing any more
// The model and the tuner ask the plan what a format would do.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/columns.hpp"
#include "core/csr_matrix.hpp"
#include "core/options.hpp"
#include "core/types.hpp"

namespace spmvgpu {

// How the values of a stored matrix are replaced.
enum class NewValues {
    kBuildAnew,  // the structure depends on the values, but workspace_bytes() does not: planned and stored again
    kCopy,       // `values` has them in CSR order
    kPass,       // the format has a Builder, see builder.hpp, whose store_values() puts them in place
};

// Properties of a format for all matrices.
struct Traits {
    bool needs_symmetry = false;         // holds symmetric matrices only
    bool reads_whole_diagonals = false;  // reads x along whole diagonals of the matrix, entry or not
    bool reads_all_of_x = false;         // reads all of x, at entries and elsewhere
    bool gathers_x_first = false;        // multiplies by values gathered from x, which several products may share
    bool multiplies_panels = true;       // multiplies several vectors at once on the CPU
    bool multiplies_columns = false;     // multiplies several vectors at once on a GPU
    bool builds_on_gpu = false;          // has a Builder, see builder.hpp, so that a matrix on a GPU is converted there
    NewValues new_values = NewValues::kBuildAnew;

    // Properties that format="auto" needs.
    bool only_if_asked = false;  // for experiments with a paper, and chosen only if asked for
    bool has_long_plan = false;  // a plan on a GPU takes as long as dozens of products, or hundreds
    double plan_us = 0;          // otherwise about this long, for 1 to 60 M entries; 0 if a few products take longer
    bool needs_rows_that_repeat = false;  // holds only matrices in which most rows repeat the values of others
    bool needs_few_values = false;  // worth a plan on a GPU only if few distinct values occur, which it stores once
};

// The cost of a matrix in a format, known before it is stored.
struct Cost {
    std::size_t bytes = 0;         // on the device: the arrays, and the scratch space of products on one stream
    std::int64_t slots = 0;        // places for values, padding included
    std::int64_t entries = 0;      // values of the matrix in these slots
    int launches = 0;              // kernels of a product on a GPU; 0 on the CPU
    std::int64_t gathers = 0;      // reads of x by index
    bool stores_in_order = false;  // neighbouring lanes write neighbouring rows of y, so that whole lines are written

    double padding() const {  // slots per non-zero
        return slots == entries ? 1.0
                                : static_cast<double>(slots) / static_cast<double>(std::max<std::int64_t>(entries, 1));
    }
};

// Counts that explain() shows beside the cost of a plan, by the plan's own each_count(visit).
template <class Plan>
std::map<std::string, double> counts_of(const Plan& plan) {
    std::map<std::string, double> counts;
    const auto keep = [&](const char* name, auto count) { counts[name] = static_cast<double>(count); };
    if constexpr (requires { plan.each_count(keep); }) plan.each_count(keep);
    return counts;
}

template <class Plan, class Tuning>
concept PlanContract = requires(const Plan& plan) {
    { plan.tuning } -> std::same_as<const Tuning&>;  // with every automatic choice made
    { plan.cost } -> std::same_as<const Cost&>;
};

struct IgnoreArray {
    template <class A>
    void operator()(const char* /*name*/, A& /*array*/) const {}
};

// x and y lie on the device of the format's arrays; the product's scratch space has workspace_bytes(). With several
// vectors in contiguous rows the product is y = A * x.
template <class F>
concept MultipliesPanels = requires(const F& format, const Product<typename F::value_type>& product) {
    { format.multiply_panel(product) } -> std::same_as<void>;
};

template <class F>
concept MultipliesColumns = requires(const F& format, const Product<typename F::value_type>& product, Stream stream) {
    { format.multiply_columns_cuda(product, stream) } -> std::same_as<void>;
};

// The gathered values go to the scratch space, unless the host gathers for a GPU: then gather() makes them, the product
// takes them as x, and gather_x_cuda does nothing.
template <class F>
concept GathersX = requires(const F& format, const Product<typename F::value_type>& product, Stream stream,
                            const typename F::value_type* x, typename F::value_type* gathered, index_t k) {
    { format.gathers_on_host() } -> std::same_as<bool>;
    { format.gather(x, gathered, k, k) } -> std::same_as<void>;
    { format.gather_x(product) } -> std::same_as<void>;
    { format.gather_x_cuda(product, stream) } -> std::same_as<void>;
};

// On a GPU, leaves the inner products of Product::x_of_rows and y, and of y and W y, in dot_parts() pairs of parts at
// Product::dots, for solvers that would read the vectors again for them.
template <class F>
concept SumsDots = requires(const F& format) {
    { format.dot_parts() } -> std::same_as<index_t>;
};

// Parts of the inner product that a kernel with a thread per row leaves: one for each warp.
constexpr index_t parts_of_rows(index_t rows) { return rows / 32 + (rows % 32 != 0); }

template <class F>
concept FormatContract = requires(const F& format, F& own, const CsrMatrix<typename F::value_type>& csr,
                                  const typename F::Tuning& tuning, const typename F::Plan& plan, const Target& target,
                                  const Product<typename F::value_type>& product, Stream stream) {
    { F::kName } -> std::convertible_to<std::string_view>;
    { F::kTraits } -> std::same_as<const Traits&>;
    { list_options(tuning) } -> std::same_as<std::vector<OptionInfo>>;
    { F::Tuning::candidates() } -> std::same_as<std::vector<Options>>;  // what tuning tries, likeliest first

    { F::plan(csr, tuning, target) } -> std::same_as<typename F::Plan>;
    { F::from_csr(csr, plan) } -> std::same_as<F>;
    { format.to_csr() } -> std::same_as<CsrMatrix<typename F::value_type>>;  // in host memory

    { format.rows } -> std::same_as<const index_t&>;
    { format.cols } -> std::same_as<const index_t&>;
    { format.nnz } -> std::same_as<const index_t&>;
    { format.tuning } -> std::same_as<const typename F::Tuning&>;
    F::each_array(format, IgnoreArray{});  // visit(name, array) for the arrays that go to the device
    F::each_array(own, IgnoreArray{});

    { format.workspace_bytes() } -> std::same_as<std::size_t>;
    { format.spmv(product) } -> std::same_as<void>;
    { format.spmv_cuda(product, stream) } -> std::same_as<void>;
}
&&PlanContract<typename F::Plan, typename F::Tuning>&& F::kTraits.multiplies_panels ==
    MultipliesPanels<F>&& F::kTraits.multiplies_columns == MultipliesColumns<F>&& F::kTraits.gathers_x_first ==
    GathersX<F>;

// Products may check their operands first, because a null pointer that is read costs a process its CUDA context without
// a word about its origin.
#ifdef SPMVGPU_CHECK_OPERANDS
inline constexpr bool kChecksOperands = true;
#else
inline constexpr bool kChecksOperands = false;
#endif

// Throws std::logic_error if a product with this scratch space may read or write through a null pointer.
template <FormatContract F, class T>
void check_operands(const F& format, const Product<T>& product, std::size_t scratch_bytes) {
    if (product.columns == 0) return;
    const auto require = [](bool is_used, const void* operand, const std::string& name) {
        if (is_used && operand == nullptr) {
            throw std::logic_error("a product in format '" + std::string(F::kName) + "' uses " + name +
                                   ", which is null");
        }
    };
    const bool has_rows = format.rows > 0;
    require(format.nnz > 0 || (has_rows && F::kTraits.reads_all_of_x), product.x, "x");
    require(has_rows && product.dots != nullptr, product.x_of_rows, "x at the rows");
    require(has_rows, product.y, "y");
    require(scratch_bytes > 0, product.scratch, "the scratch space");
    F::each_array(format, [&](const std::string& name, const auto& array) {
        require(array.size() > 0, array.data(), "the array " + name);
    });
}

// The product on the CPU, with one vector, or with several whose rows are contiguous; several need no scratch space.
template <FormatContract F, class T>
void multiply_cpu(const F& format, const Product<T>& product) {
    if constexpr (kChecksOperands) {
        check_operands(format, product, product.is_of_vectors() ? format.workspace_bytes() : 0);
    }
    if (product.is_of_vectors()) return format.spmv(product);
    if constexpr (F::kTraits.multiplies_panels) format.multiply_panel(product);
}

// The product on a GPU, with any number of columns. A format that takes one vector at a time gets them one by one, and
// they must be contiguous.
template <FormatContract F, class T>
void multiply_cuda(const F& format, const Product<T>& product, Stream stream) {
    if constexpr (kChecksOperands) check_operands(format, product, format.workspace_bytes());
    if (product.is_of_vectors()) return format.spmv_cuda(product, stream);
    if constexpr (F::kTraits.multiplies_columns) {
        format.multiply_columns_cuda(product, stream);
    } else {
        for_each_vector(product, [&](const Product<T>& vectors) { format.spmv_cuda(vectors, stream); });
    }
}

}  // namespace spmvgpu
