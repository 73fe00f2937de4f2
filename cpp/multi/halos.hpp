// Halos of vectors in pieces: the elements that the parts of a multi-device matrix read from each other's pieces.
#pragma once

#include <vector>

#include "multi/device_part.hpp"

namespace spmvgpu {

template <class T>
class Halos {
public:
    // Elements that a part reads from another one's piece.
    struct Pull {
        std::size_t from;
        index_t begin, end;
    };
    // A device with its piece of x, and the part whose rows are its piece of y.
    struct Lane {
        const DevicePart<T>* part;  // null: no rows
        Device device;
        index_t begin, end;  // the piece of x; of a square matrix, the rows of the part
        std::vector<Pull> pulls;
        std::vector<std::size_t> read_by;  // lanes that pull from this one's piece
        bool is_interior_read = false;     // other lanes pull elements with the numbers of interior rows

        // Returns true if some of its product needs no pull.
        bool has_interior() const { return part != nullptr && part->interior_parts > 0 && !pulls.empty(); }
        // The inner products that its product on a GPU leaves. Without pairs, none may be asked for.
        DotsLeft dots_left() const;
        // The product on its GPU. `pulling` holds the pulls, and then the product of the rows that need them, which
        // `stream` awaits: it is another stream if there is an interior, so that both are multiplied at the same time.
        void multiply(const Product<T>& product, Stream stream, Stream pulling) const;
    };

    // Returns true if the matrix is square and its parts hold neighbouring rows, in order.
    static bool suits(const std::vector<DevicePart<T>>& parts, index_t rows, index_t cols);

    // The parts outlive it. Lets GPUs access each other's memory where they pull. Throws std::invalid_argument unless
    // suits() holds. Parts without rows have no lane.
    Halos(const std::vector<DevicePart<T>>& parts, index_t rows, index_t cols);
    // For a matrix whose x is divided in another way than its rows: every device has the elements from the end of the
    // piece before to the end of its own. The parts belong to the devices in this order, of which the last ones may
    // have none. Throws std::invalid_argument for other parts.
    Halos(const std::vector<DevicePart<T>>& parts, const std::vector<Device>& devices,
          const std::vector<index_t>& ends);

    const std::vector<Lane>& lanes() const { return lanes_; }
    std::vector<Device> devices() const;
    std::vector<index_t> ends() const;  // where the pieces of x end
    index_t size() const { return size_; }
    bool has_gpus() const;
    bool has_cpus() const;
    bool can_be_recorded() const;

private:
    void find_pulls();
    // Notes that others pull these elements of a lane's piece.
    static void note_reading(Lane& lane, const Pull& pull);

    index_t size_;  // elements of x
    std::vector<Lane> lanes_;
};

}  // namespace spmvgpu
