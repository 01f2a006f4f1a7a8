#version 450
// Loads that see only what the same invocation stored before, and loads that may see more.
layout(local_size_x = 32) in;
struct Pair { float a; float b; };
layout(push_constant) uniform Push { uint n; uint w; };
layout(binding = 0) readonly buffer Source { float source[]; };
layout(binding = 1) buffer Own { float own[]; };
layout(binding = 2) buffer Guarded { float guarded[]; };
layout(binding = 3) buffer Members { Pair members[]; };
layout(binding = 4) buffer OtherMember { Pair other_member[]; };
layout(binding = 5) buffer Neighbour { float neighbour[]; };
layout(binding = 6) buffer Before { float before[]; };
layout(binding = 7) buffer Sometimes { float sometimes[]; };
layout(binding = 8) buffer Scattered { float scattered[]; };
layout(binding = 9) buffer InLoop { float in_loop[]; };
layout(binding = 10) buffer Counted { uint counted[]; };
layout(binding = 11) buffer Rows { float rows[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = source[i];
    own[i] = x;
    own[i] *= 2;
    if (i < n) {
        guarded[i] = x;
        barrier();
        guarded[i] = sqrt(guarded[i]);
    }
    members[i].a = x;
    members[i].b = 1;
    Pair pair = members[i];
    other_member[i].a = pair.b;
    other_member[i].b += pair.a;
    neighbour[i] = x;
    if (neighbour[i + 1] > 0) neighbour[i] = 0;
    before[i] += x;
    if (x > 0) sometimes[i] = x;
    sometimes[i] += 1;
    uint at = uint(x);
    scattered[at] = x;
    scattered[at] += 1;
    for (uint c = 0; c < w; ++c) {
        in_loop[i * w + c] = x;
        in_loop[i * w + c] += 1;
    }
    counted[i] = 0;
    atomicAdd(counted[i], 1);
    // Every store of the first loop has its load in the second, but it takes more than an order of instructions to see it.
    for (uint c = 0; c < w; ++c) rows[i * w + c] = source[c];
    for (uint c = 0; c < w; ++c) rows[i * w + c] /= x;
}
