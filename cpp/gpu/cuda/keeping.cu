#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "core/mutex.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/keeping.hpp"
#include "gpu/memory.hpp"
#include "gpu/runtime.hpp"
#include "gpu/stream.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::gpu {

namespace {

__global__ void write_policy(float share, std::uint64_t* policy) {
#if __CUDA_ARCH__ >= 800
    if (share > 0) {
        asm("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, %1;" : "=l"(*policy) : "f"(share));
    } else {
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(*policy));
    }
#endif
}

}  // namespace

std::uint64_t policy_to_keep(double share, int ordinal) {
    constexpr int kParts = 16;  // a GPU has no smaller shares
    static Mutex mutex;
    static std::map<std::pair<int, int>, std::uint64_t> known;
    const std::pair key(ordinal, static_cast<int>(std::floor(share * kParts)));
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
    const Device device{ordinal};
    const DeviceGuard guard(device);
    const std::shared_ptr<void> written = allocate(sizeof(std::uint64_t), ordinal), stream = lease_stream(device);
    set_zero(written.get(), sizeof(std::uint64_t), ordinal);
    write_policy<<<1, 1, 0, native(stream.get())>>>(static_cast<float>(key.second) / kParts,
                                                    static_cast<std::uint64_t*>(written.get()));
    check_launch("write_policy");
    synchronize(stream.get(), device);
    std::uint64_t policy = 0;
    copy(&policy, {}, written.get(), device, sizeof(policy));
    return known[key] = policy;
}

}  // namespace spmvgpu::gpu
