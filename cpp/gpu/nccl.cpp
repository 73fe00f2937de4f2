#include "gpu/nccl.hpp"

#include <map>
#include <mutex>

#include "core/errors.hpp"
#include "core/mutex.hpp"
#include "core/system.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

// The functions of NCCL 2, as its header declares them: 0 is success, and bytes are type 0.
struct NcclCommunicator::Library {
    using Handle = void*;
    struct UniqueId {
        NcclId bytes;
    };
    static constexpr int kBytes = 0;

    int (*get_version)(int*) = nullptr;
    int (*get_unique_id)(UniqueId*) = nullptr;
    int (*init_rank)(Handle*, int ranks, UniqueId, int rank) = nullptr;
    int (*destroy)(Handle) = nullptr;
    const char* (*error_string)(int) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*send)(const void*, std::size_t, int type, int rank, Handle, Stream) = nullptr;
    int (*receive)(void*, std::size_t, int type, int rank, Handle, Stream) = nullptr;
    int (*all_gather)(const void*, void*, std::size_t, int type, Handle, Stream) = nullptr;

    explicit Library(const std::string& name) {
        void* const opened = system::open_library(name.c_str());
        if (opened == nullptr) throw CudaError("NCCL cannot be loaded: " + std::string(system::last_library_error()));
        find(opened, "ncclGetVersion", get_version);
        find(opened, "ncclGetUniqueId", get_unique_id);
        find(opened, "ncclCommInitRank", init_rank);
        find(opened, "ncclCommDestroy", destroy);
        find(opened, "ncclGetErrorString", error_string);
        find(opened, "ncclGroupStart", group_start);
        find(opened, "ncclGroupEnd", group_end);
        find(opened, "ncclSend", send);
        find(opened, "ncclRecv", receive);
        find(opened, "ncclAllGather", all_gather);
    }

    void check(int result, const char* call) const {
        if (result != 0) throw CudaError(std::string(call) + " failed: " + error_string(result));
    }

private:
    template <class Function>
    static void find(void* opened, const char* name, Function& function) {
        function = reinterpret_cast<Function>(system::find_symbol(opened, name));
        if (function == nullptr) throw CudaError(std::string("the NCCL that was found has no ") + name);
    }
};

const NcclCommunicator::Library& NcclCommunicator::load(const std::string& name) {
    struct Libraries {
        Mutex mutex;
        std::map<std::string, Library> loaded;
    };
    static Libraries* const libraries = new Libraries;  // never unloaded, because there is no good time for it at exit
    const std::lock_guard lock(libraries->mutex);
    return libraries->loaded.try_emplace(name, name).first->second;
}

NcclId NcclCommunicator::make_id(const std::string& library) {
    Library::UniqueId id;
    const Library& nccl = load(library);
    nccl.check(nccl.get_unique_id(&id), "ncclGetUniqueId");
    return id.bytes;
}

int NcclCommunicator::version(const std::string& library) {
    int version = 0;
    const Library& nccl = load(library);
    nccl.check(nccl.get_version(&version), "ncclGetVersion");
    return version;
}

NcclCommunicator::NcclCommunicator(const std::string& library, const NcclId& id, int ranks, int rank, int ordinal)
    : library_(&load(library)), ranks_(ranks), ordinal_(ordinal) {
    const DeviceGuard guard(ordinal);
    void* made = nullptr;
    library_->check(library_->init_rank(&made, ranks, {id}, rank), "ncclCommInitRank");
    communicator_ = {made, [&nccl = *library_](void* communicator) { nccl.destroy(communicator); }};
}

void NcclCommunicator::exchange(const std::vector<NcclMessage>& sent, const std::vector<NcclMessage>& received,
                                Stream stream) const {
    if (sent.empty() && received.empty()) return;
    void* const communicator = communicator_.get();
    library_->check(library_->group_start(), "ncclGroupStart");
    int result = 0;
    for (const NcclMessage& m : received) {
        if (result == 0) {
            result = library_->receive(m.data, m.bytes, Library::kBytes, m.rank, communicator, stream);
        }
    }
    for (const NcclMessage& m : sent) {
        if (result == 0) result = library_->send(m.data, m.bytes, Library::kBytes, m.rank, communicator, stream);
    }
    const int ended = library_->group_end();  // in any case, because a group would stay open otherwise
    library_->check(result, "ncclSend or ncclRecv");
    library_->check(ended, "ncclGroupEnd");
}

void NcclCommunicator::all_gather(const void* from, void* to, std::size_t bytes, Stream stream) const {
    library_->check(library_->all_gather(from, to, bytes, Library::kBytes, communicator_.get(), stream),
                    "ncclAllGather");
}

}  // namespace spmvgpu::gpu
