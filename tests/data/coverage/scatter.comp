#version 450
// Rows of a cache: which bytes are stored, the data says.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer Places { uint place[]; };
layout(binding = 1) readonly buffer Source { float source[]; };
layout(binding = 2) writeonly buffer Cache { float cache[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    cache[place[i]] = source[i];
}
