#version 450
// One binding for each way a kernel touches memory; the names say which.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer ReadOnly { uint v[]; } read_only;
layout(set = 0, binding = 1) writeonly buffer WriteOnly { uint v[]; } write_only;
layout(set = 0, binding = 2) buffer OnlyStored { uint v[]; } only_stored;
layout(set = 0, binding = 3) buffer InPlace { uint v[]; } in_place;
layout(set = 0, binding = 4) buffer Atomic { uint v[]; } counted;
layout(set = 0, binding = 5) buffer Called { uint v[]; } in_function;
layout(set = 0, binding = 6) buffer Never { uint v[]; } never;
layout(set = 0, binding = 7) buffer LengthOnly { uint v[]; } length_only;
layout(set = 0, binding = 8) buffer OnlyLoaded { uint v[]; };

uint called(uint i) { return in_function.v[i]; }

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= length_only.v.length()) return;
    uint x = read_only.v[i] + v[i] + called(i);
    write_only.v[i] = x;
    only_stored.v[i] = x;
    in_place.v[i] += x;
    atomicAdd(counted.v[0], 1);
}
