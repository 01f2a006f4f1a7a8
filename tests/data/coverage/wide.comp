#version 450
// Four elements by each invocation, one after the other.
layout(local_size_x = 32) in;
layout(push_constant) uniform Push { uint n; };
layout(binding = 0) writeonly buffer Four { float four[]; };
layout(binding = 1) writeonly buffer Guarded { float guarded[]; };
layout(binding = 2) writeonly buffer Three { float three[]; };
layout(binding = 3) writeonly buffer Unrolled { float unrolled[][4]; };
void main() {
    uint i = gl_GlobalInvocationID.x * 4;
    four[i] = 0;
    four[i + 1] = 1;
    four[i + 2] = 2;
    four[i + 3] = 3;
    if (i + 3 < n) { guarded[i + 3] = 3; guarded[i] = 0; guarded[i + 2] = 2; guarded[i + 1] = 1; }
    three[i] = 0;
    three[i + 1] = 1;
    three[i + 3] = 3;
    for (int k = 0; k < 1; ++k) { }
    unrolled[i / 4u][0] = 0;
    unrolled[gl_GlobalInvocationID.x][0] = 0;
    unrolled[gl_GlobalInvocationID.x][1] = 1;
    unrolled[gl_GlobalInvocationID.x][2] = 2;
    unrolled[gl_GlobalInvocationID.x][3] = 3;
}
