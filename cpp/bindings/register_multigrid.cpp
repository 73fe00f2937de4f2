#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/planning.hpp"
#include "bindings/value_types.hpp"
#include "gpu/run.hpp"
#include "multigrid/between_pieces.hpp"
#include "multigrid/dense_inverse.hpp"
#include "multigrid/hierarchy.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using multigrid::Hierarchy;

template <class T>
CsrMatrix<T> matrix_of(const Hierarchy<T>& hierarchy, std::size_t level, char name) {
    switch (name) {
        case 'A':
            return hierarchy.matrix(level);
        case 'P':
            return hierarchy.grid(level).P;
        case 'R':
            return hierarchy.grid(level).R;
        default:
            throw std::invalid_argument(std::string("a grid has A, P and R, and no ") + name);
    }
}

using AnyHierarchy = AnyOf<Hierarchy>;
using multigrid::EntriesBetween;
using AnyBetween = AnyOf<EntriesBetween>;

template <class T>
std::uintptr_t address_of(const Array<T>& array) {
    return reinterpret_cast<std::uintptr_t>(array.data());
}

// A coarsening in Python: aggregates and how many, how often P is smoothed, its columns, row offsets and column
// indices, and the marks of entries that are kept.
using Ints = py::array_t<index_t, py::array::c_style>;
using Strengths = py::array_t<multigrid::Strength, py::array::c_style>;
using CoarseningTuple = std::tuple<index_t, Ints, int, index_t, Ints, Ints, Strengths>;

CoarseningTuple tuple_of(const multigrid::Coarsening& made) {
    return {made.aggregates.count,           to_numpy(made.aggregates.of_node), made.steps,         made.of_P.cols,
            to_numpy(made.of_P.row_offsets), to_numpy(made.of_P.col_indices),   to_numpy(made.kept)};
}

multigrid::Coarsening coarsening_of(const CoarseningTuple& given) {
    const auto& [count, aggregates, steps, cols, row_offsets, col_indices, kept] = given;
    const auto rows = static_cast<index_t>(row_offsets.size() - 1), nnz = static_cast<index_t>(col_indices.size());
    return {{count, view_of(aggregates)},
            steps,
            {rows, cols, nnz, view_of(row_offsets), view_of(col_indices)},
            view_of(kept)};
}

// Where the rows of nodes begin, and end; empty where each row is one.
Array<index_t> first_rows(const std::variant<index_t, Dense<index_t>>& block, index_t rows) {
    const auto* const of_all = std::get_if<index_t>(&block);
    if (of_all == nullptr) {
        const auto given = view_of(std::get<Dense<index_t>>(block));
        const bool is_whole = given.size() > 0 && given[0] == 0 && given[given.size() - 1] == rows;
        if (!is_whole || !std::ranges::is_sorted(given)) throw std::invalid_argument("these are not the rows of nodes");
        return given;
    }
    if (*of_all == 1) return {};
    if (*of_all < 1 || rows % *of_all != 0) throw std::invalid_argument("nodes of other sizes");
    Array<index_t> made(std::size_t(rows / *of_all) + 1);
    for (std::size_t node = 0; node < made.size(); ++node) made[node] = static_cast<index_t>(node) * *of_all;
    return made;
}

template <class V>
bool invert_definite(Dense<V>& matrix, double least) {
    if (matrix.ndim() != 2 || matrix.shape(0) != matrix.shape(1)) {
        throw std::invalid_argument("a matrix that is not square has no inverse");
    }
    V* const entries = matrix.mutable_data();
    const auto n = static_cast<index_t>(matrix.shape(0));
    const GilRelease release;
    return multigrid::invert_definite(n, entries, least);
}

template <class V>
void register_invert_definite(py::module_& module) {
    module.def("invert_definite", &invert_definite<V>, py::arg("matrix").noconvert(), py::arg("least"),
               "Replaces a dense Hermitian matrix by its inverse; False, with anything there, if a pivot is below "
               "`least`.");
}

// Throws std::invalid_argument unless a matrix has these rows on the device of what is between pieces.
template <class T>
const CsrMatrix<T>& beside(const EntriesBetween<T>& between, const AnyCsrSource& source, index_t rows) {
    const CsrMatrix<T>& csr = source.of<T>()->csr();
    if (csr.rows != rows || csr.device() != between.rows.device()) {
        throw std::invalid_argument("a matrix of " + std::to_string(csr.rows) + " rows in place of " +
                                    std::to_string(rows) + ", or on another device");
    }
    return csr;
}

// The result of an operation on what is between pieces, on its device.
template <class Operation>
auto run_there(const Operation& operation) {
    return gpu::run(operation, operation.between.rows.device());
}

void register_between(py::module_& module) {
    py::class_<AnyBetween>(module, "EntriesBetween",
                           "Entries of the rows of a piece that its diagonal block does not have. Those rows that have "
                           "any are near other pieces.")
        .def(py::init(method<AnyCsrSource>(
                 []<class T>(const PlannedSource<T>& source, index_t begin, index_t end) -> AnyBetween {
                     return std::make_shared<EntriesBetween<T>>(
                         gpu::run(multigrid::FindBetween<T>{source.csr(), begin, end}, source.device()));
                 })),
             py::arg("source"), py::arg("begin"), py::arg("end"), py::call_guard<GilRelease>(),
             "All entries of a matrix with the rows of the piece, which are those from `begin` to before `end` of the "
             "whole one.")
        .def_property_readonly(
            "nnz", method<AnyBetween>([]<class T>(const EntriesBetween<T>& between) { return between.rows.nnz; }),
            "How many they are.")
        .def_property_readonly("near", method<AnyBetween>([]<class T>(const EntriesBetween<T>& between) {
                                   return listed([&] { return between.near.to({}); });
                               }),
                               "The rows near other pieces, ascending, as numbers in the piece.")
        .def_property_readonly("needed", method<AnyBetween>([]<class T>(const EntriesBetween<T>& between) {
                                   return listed([&] { return between.needed.to({}); });
                               }),
                               "The columns of other pieces with entries, ascending.")
        .def("times",
             method<AnyBetween>([]<class T>(const EntriesBetween<T>& between, const AnyCsrSource& of_piece,
                                            const AnyCsrSource& needed, index_t first) {
                 const CsrMatrix<T>&own = beside(between, of_piece, between.own.cols),
                       &others = beside(between, needed, between.halo.cols);
                 return source_of(run_there(multigrid::TimesBetween<T>{between, own, others, first}));
             }),
             py::arg("of_piece"), py::arg("needed"), py::arg("first"), py::call_guard<GilRelease>(),
             "A source of the product with a matrix, in the rows near other pieces. The matrix comes in two parts: the "
             "rows of the piece, and the needed ones, where the first column of the piece is `first`.")
        .def("near_rows",
             method<AnyBetween>(
                 []<class T>(const EntriesBetween<T>& between, const AnyCsrSource& block, const Dense<index_t>& given) {
                     const auto columns = view_of(given);
                     const GilRelease release;
                     const Array<index_t> there = columns.to(between.rows.device());
                     const CsrMatrix<T>& B = beside(between, block, between.own.cols);
                     return source_of(run_there(multigrid::RowsNearOthers<T>{between, B, there}));
                 }),
             py::arg("block"), py::arg("columns").noconvert(),
             "A source of the rows near other pieces of the whole matrix, of which the piece has a diagonal block, in "
             "the listed columns, ascending.")
        .def("coupled",
             method<AnyBetween>([]<class T>(const EntriesBetween<T>& between, const AnyCsrSource& block,
                                            const AnyCsrSource& Q, const AnyCsrSource& EQ,
                                            const std::optional<AnyCsrSource>& D,
                                            const std::optional<AnyCsrSource>& needed, index_t first) {
                 const index_t rows = between.own.cols;
                 const CsrMatrix<T>&B = beside(between, block, rows), &of_Q = beside(between, Q, rows);
                 const CsrMatrix<T>& of_EQ = beside(between, EQ, between.rows.rows);
                 const CsrMatrix<T>* const of_D = D ? &beside(between, *D, rows) : nullptr;
                 const CsrMatrix<T>* const others = D ? &beside(between, needed.value(), between.halo.cols) : nullptr;
                 const auto made = run_there(multigrid::CoupleBetween<T>{between, B, of_Q, of_EQ, of_D, others, first});
                 std::optional<AnyCsrSource> adjoint;
                 if (D) adjoint = source_of(made.adjoint);
                 return std::pair{source_of(made.A), adjoint};
             }),
             py::arg("block"), py::arg("Q"), py::arg("EQ"), py::arg("D") = py::none(), py::arg("needed") = py::none(),
             py::arg("first") = 0, py::call_guard<GilRelease>(),
             "Sources of what the piece adds to the coarser matrix of the blocks, in rows of any piece, and of D*. `D` "
             "and its `needed` rows are what smoothing adds to the prolongators of the blocks, if it does.");
}

}  // namespace

void register_multigrid(py::module_& module) {
    register_invert_definite<double>(module);
    register_invert_definite<Complex<double>>(module);
    module.def("is_nearly_hermitian", method<AnyCsrSource>([]<class T>(const PlannedSource<T>& source) {
                   return multigrid::is_nearly_hermitian(source.csr());
               }),
               py::arg("source"), py::call_guard<GilRelease>(),
               "True if no entry and its mirror image differ by more than a small part of the diagonal.");
    register_between(module);
    py::class_<AnyHierarchy>(module, "Hierarchy", "A hierarchy of aggregates, on the device of its matrix.")
        .def(py::init(method<AnyCsrSource>(
                 []<class T>(const PlannedSource<T>& source, const std::optional<py::array>& given,
                             const std::variant<index_t, Dense<index_t>>& block, double strength,
                             std::pair<double, double> most_terms, index_t max_coarse, int max_levels,
                             bool is_hermitian, const std::optional<std::vector<CoarseningTuple>>& decided,
                             int most_steps, int finer, const std::optional<AnyBetween>& between) -> AnyHierarchy {
                     multigrid::Settings settings;
                     settings.strength = strength;
                     settings.most_terms = most_terms.first;
                     settings.most_terms_below = most_terms.second;
                     settings.max_coarse = max_coarse;
                     settings.max_levels = max_levels;
                     settings.most_steps = most_steps;
                     settings.is_hermitian = is_hermitian;
                     settings.finer = finer;
                     const CsrMatrix<T>& A = source.csr();
                     std::optional<Dense<T>> B;
                     if (given) B = array_as<Dense<T>>(*given);
                     const Array<index_t> nodes = first_rows(block, A.rows);
                     if (A.rows != A.cols || (B && (B->ndim() != 2 || B->shape(0) != A.rows))) {
                         throw std::invalid_argument(
                             "a hierarchy needs a square matrix, and B with a row for each of it");
                     }
                     const auto* const of_all = std::get_if<index_t>(&block);
                     if (!B && of_all == nullptr) throw std::invalid_argument("nodes of different sizes need B");
                     const auto modes = B ? static_cast<index_t>(B->shape(1)) : *of_all;
                     const T* const entries = B ? B->data() : nullptr;
                     std::vector<multigrid::Coarsening> coarsenings;
                     if (decided) std::ranges::transform(*decided, std::back_inserter(coarsenings), coarsening_of);
                     const GilRelease release;
                     const Array<index_t> near = between ? between->of<T>()->near : Array<index_t>{};
                     auto made = std::make_shared<Hierarchy<T>>(A, nodes, entries, modes, settings, near);
                     while (decided && made->grow(&coarsenings)) {
                     }
                     return made;
                 })),
             py::arg("source"), py::arg("B").noconvert(), py::arg("block"), py::arg("strength"), py::arg("most_terms"),
             py::arg("max_coarse"), py::arg("max_levels"), py::arg("hermitian"), py::arg("decided") = py::none(),
             py::arg("most_steps") = 2, py::arg("finer") = 0, py::arg("between") = py::none(), py::keep_alive<1, 2>(),
             "Nodes have `block` rows each, or begin at these rows, which the number of rows ends. Without B, it is a "
             "constant for each row of a node. Prolongators are smoothed, by at most `most_steps` steps, if products "
             "with them have at most `most_terms` terms: on the finest grid, and on others. If the matrix is not "
             "Hermitian, R is smoothed by its adjoint, and the largest eigenvalues are bounds of their sizes. "
             "`decided` is `coarsenings` of an equal hierarchy with other values; without, a hierarchy has no levels "
             "before it grows. There are `finer` levels before it, so that entries may be rounding errors. The matrix "
             "is "
             "a diagonal block if there are entries `between` it and others: its rows near others without a strong "
             "connection in the block are coarse unknowns of their own.")
        .def("nodes", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level) {
                 return to_numpy(hierarchy.nodes(level));
             }),
             py::arg("level"), "Where the rows of each node begin, and end; empty where each row is one.")
        .def("near_null_space", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level) {
                 return py::array(to_numpy(hierarchy.near_null_space(level)));
             }),
             py::arg("level"), "B of a coarser level, one row after the other.")
        .def("tentative", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level) {
                 return source_of(hierarchy.tentative(level));
             }),
             py::arg("level"), py::call_guard<GilRelease>(), "A source of the tentative prolongator of a level.")
        .def("smoothing",
             method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level, const AnyCsrSource& A,
                                              const AnyBetween& E, const AnyCsrSource& ET) {
                 const auto& near = E.of<T>()->near;
                 return source_of(hierarchy.smoothing(level, A.of<T>()->csr(), near, ET.of<T>()->csr()));
             }),
             py::arg("level"), py::arg("A"), py::arg("E"), py::arg("ET"), py::call_guard<GilRelease>(),
             "A source of what smoothing adds to a prolongator for entries E besides those of the matrix A of a level, "
             "of their product with the tentative prolongator.")
        .def("renew", method<AnyHierarchy>([]<class T>(Hierarchy<T>& hierarchy, const py::array& given) {
                 const auto values = view_of(array_as<Dense<T>>(given));
                 const GilRelease release;
                 hierarchy.renew(values);
             }),
             py::arg("values").noconvert(), "Takes other values for the finest matrix, in host memory.")
        .def("renew_at",
             method<AnyHierarchy>(
                 []<class T>(Hierarchy<T>& hierarchy, std::uintptr_t values, std::size_t count, int ordinal) {
                     hierarchy.renew(Array<T>::view(at<T>(values), count, Device{ordinal}));
                 }),
             py::arg("values"), py::arg("count"), py::arg("ordinal"), py::call_guard<GilRelease>(),
             "Renews the hierarchy with values at an address on the device.")
        .def_property_readonly(
            "refusal",
            method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy) -> std::optional<std::pair<int, bool>> {
                if (hierarchy.refusals().empty()) return std::nullopt;
                return std::pair{hierarchy.refusals()[0].level, hierarchy.refusals()[0].is_finite};
            }),
            "(level, whether it is finite) of the matrix that is not positive definite, or not finite; None if all "
            "are.")
        .def_property_readonly("smoothed_levels", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy) {
                                   return hierarchy.smoothed_levels();
                               }),
                               "How many levels have a smoothed prolongator; they are the finest ones.")
        .def_property_readonly(
            "levels", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy) { return hierarchy.size(); }))
        .def("grow", method<AnyHierarchy>([]<class T>(Hierarchy<T>& hierarchy) { return hierarchy.grow(); }),
             py::call_guard<GilRelease>(), "Makes the next level, and returns True if a coarser one follows it.")
        .def("source", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level, char name) {
                 return source_of(matrix_of(hierarchy, level, name));
             }),
             py::arg("level"), py::arg("name"), py::keep_alive<0, 1>(),
             "A, P or R of a level, or A of the next one. The coarsest level has no P and R, and the finest one no A "
             "until it is renewed.")
        .def("values", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level, char name) {
                 return address_of(matrix_of(hierarchy, level, name).values);
             }),
             py::arg("level"), py::arg("name"), "The address of the values on the device.")
        .def("inverse_diagonal", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level) {
                 return address_of(hierarchy.grid(level).inverse_diagonal);
             }),
             py::arg("level"), "Its address on the device.")
        .def("largest_eigenvalue", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level) {
                 return hierarchy.grid(level).largest_eigenvalue;
             }),
             py::arg("level"), "Of the matrix scaled by its diagonal, estimated.")
        .def("aggregates", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy, std::size_t level) {
                 return to_numpy(hierarchy.grid(level).aggregates);
             }),
             py::arg("level"), "The aggregate of each node, -1 for none.")
        .def("coarsenings", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy) {
                 std::vector<CoarseningTuple> made;
                 std::ranges::transform(hierarchy.coarsenings(), std::back_inserter(made), tuple_of);
                 return made;
             }),
             "Decisions by the first values for each grid except the coarsest one, for a hierarchy with other values.")
        .def("drop_values", method<AnyHierarchy>([]<class T>(Hierarchy<T>& hierarchy) { hierarchy.drop_values(); }),
             py::call_guard<GilRelease>(), "Frees the values of all matrices, once others have them.")
        .def_property_readonly(
            "nbytes", method<AnyHierarchy>([]<class T>(const Hierarchy<T>& hierarchy) { return hierarchy.nbytes(); }));
}

}  // namespace spmvgpu
