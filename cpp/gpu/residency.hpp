// Thread blocks that a multiprocessor holds at once, for the kernels that Guo et al. 2011 model (section 4.2.2).
#pragma once

namespace spmvgpu::gpu {

struct Residency {
    int block_size = 0;
    int blocks_per_processor = 0;  // limited by threads, registers and shared memory
};

// The CSR-vector kernel, a warp per row (csr with kernel="shared"), and the ELL kernel, a thread per row. As compiled
// for the device; throws CudaError.
template <class T>
Residency csr_vector_residency(int ordinal);
template <class T>
Residency ell_residency(int ordinal);

}  // namespace spmvgpu::gpu
