// Messages between GPUs of several processes, by NCCL: a library that is loaded when a communicator is first asked for,
// and that nothing else needs.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/types.hpp"

namespace spmvgpu::gpu {

// Identifies the processes that are to connect: one of them makes it and sends it to all.
using NcclId = std::array<char, 128>;

// The bytes that one rank and this one exchange, in a buffer on the device.
struct NcclMessage {
    int rank;
    void* data;
    std::size_t bytes;
};

class NcclCommunicator {
public:
    // `library` is a name or path of libnccl. Throws CudaError if it cannot be loaded or reports an error.
    static NcclId make_id(const std::string& library);
    static int version(const std::string& library);  // as in 22703 for 2.27.3

    // Called by all ranks together, each with a GPU that no other one has.
    NcclCommunicator(const std::string& library, const NcclId& id, int ranks, int rank, int ordinal);

    int ranks() const { return ranks_; }
    int ordinal() const { return ordinal_; }

    // All ranks call these in the same order. They queue work on a stream of the GPU, which may be captured once it has
    // run. Messages to one rank arrive in the order in which they are sent.
    void exchange(const std::vector<NcclMessage>& sent, const std::vector<NcclMessage>& received, Stream stream) const;
    void all_gather(const void* from, void* to, std::size_t bytes, Stream stream) const;  // in the order of the ranks

private:
    struct Library;
    static const Library& load(const std::string& name);

    const Library* library_ = nullptr;
    int ranks_ = 0, ordinal_ = 0;
    std::shared_ptr<void> communicator_;
};

}  // namespace spmvgpu::gpu
