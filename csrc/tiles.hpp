// The AMX register file as all code here sets it up.
#pragma once

#include "target.hpp"

namespace pymicro {

// Eight tiles of 16 rows by 64 bytes, on this thread, until _tile_release().
TARGET_AMX void configure_tiles();

}  // namespace pymicro
