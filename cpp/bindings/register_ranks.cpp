#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/csr.hpp"
#include "bindings/matrices.hpp"
#include "gpu/nccl.hpp"
#include "multi/gathered_matrix.hpp"
#include "multi/rank_matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using MessageTuples = std::vector<std::tuple<int, index_t, index_t>>;

std::vector<RankMessage> messages_of(const MessageTuples& given) {
    std::vector<RankMessage> messages;
    for (const auto& [rank, begin, end] : given) messages.push_back({rank, begin, end});
    return messages;
}

Array<index_t> on_device(const Dense<index_t>& indices, Device device) { return view_of(indices).to(device); }

template <template <class> class Kind>
void register_kind(py::module_& module, const char* name, const char* text) {
    py::class_<MatricesOf<Kind>, Matrices>(module, name, text)
        .def(py::init([](std::shared_ptr<gpu::NcclCommunicator> ranks, const Matrices& inner,
                         const std::optional<Matrices>& halo, const Dense<index_t>& boundary,
                         const Dense<index_t>& wanted, const MessageTuples& sent, const MessageTuples& received) {
                 const GilRelease release;
                 return inner.visit([&]<class T>(const std::shared_ptr<AnyMatrix<T>>& held) -> MatricesOf<Kind> {
                     const Device device{ranks->ordinal()};
                     RankBlocks<T> blocks{held, halo ? halo->of<T>() : nullptr, on_device(boundary, device),
                                          on_device(wanted, device)};
                     RankExchange<T> exchange(std::move(ranks), messages_of(sent), messages_of(received));
                     return std::make_shared<Kind<T>>(std::move(blocks), std::move(exchange));
                 });
             }),
             py::arg("ranks"), py::arg("inner"), py::arg("halo"), py::arg("boundary"), py::arg("wanted"),
             py::arg("sent"), py::arg("received"), "Messages are (rank, begin, end) in the buffers of what is sent.");
}

}  // namespace

void register_ranks(py::module_& module) {
    py::class_<gpu::NcclCommunicator, std::shared_ptr<gpu::NcclCommunicator>>(
        module, "NcclCommunicator", "Messages between GPUs of several processes.")
        .def(py::init([](const std::string& library, const py::bytes& id, int ranks, int rank, int ordinal) {
                 const std::string given = id;
                 gpu::NcclId of_all{};
                 if (given.size() != of_all.size()) throw std::invalid_argument("an id of NCCL has another length");
                 std::copy(given.begin(), given.end(), of_all.begin());
                 const GilRelease release;
                 return std::make_shared<gpu::NcclCommunicator>(library, of_all, ranks, rank, ordinal);
             }),
             py::arg("library"), py::arg("id"), py::arg("ranks"), py::arg("rank"), py::arg("ordinal"),
             "Called by all ranks together, each with a GPU of its own.")
        .def_property_readonly("ordinal", &gpu::NcclCommunicator::ordinal);
    module.def("nccl_version", &gpu::NcclCommunicator::version, py::arg("library"), "As in 22703 for 2.27.3.");
    module.def(
        "make_nccl_id",
        [](const std::string& library) {
            const gpu::NcclId id = gpu::NcclCommunicator::make_id(library);
            return py::bytes(id.data(), id.size());
        },
        py::arg("library"),
        "Identifies the processes that are to connect: one of them makes it and sends it to the others.");
    register_kind<RankMatrix>(module, "RankMatrix", "A rank's rows of a matrix over the GPUs of several processes.");
    register_kind<TransposedRankMatrix>(module, "TransposedRankMatrix", "The transpose of a RankMatrix.");
    py::class_<MatricesOf<GatheredMatrix>, Matrices>(
        module, "GatheredMatrix", "Rows of a matrix of several processes, all of which get whole products.")
        .def(py::init(
                 [](std::shared_ptr<gpu::NcclCommunicator> ranks, const Matrices& own, std::vector<index_t> counts) {
                     const GilRelease release;
                     return own.visit([&]<class T>(const std::shared_ptr<AnyMatrix<T>>& held) {
                         return MatricesOf<GatheredMatrix>(
                             std::make_shared<GatheredMatrix<T>>(std::move(ranks), held, std::move(counts)));
                     });
                 }),
             py::arg("ranks"), py::arg("own"), py::arg("counts"), "There is a number of rows for each rank.");
}

}  // namespace spmvgpu
