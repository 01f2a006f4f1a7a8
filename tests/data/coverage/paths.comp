#version 450
// What is stored on every path, and what is not.
layout(local_size_x = 32) in;
layout(push_constant) uniform Push { uint n; uint w; };
layout(binding = 0) readonly buffer Source { uint source[]; };
layout(binding = 1) writeonly buffer Both { uint both_sides[]; };
layout(binding = 2) writeonly buffer OneSide { uint one_side[]; };
layout(binding = 3) writeonly buffer Switch { uint all_cases[]; };
layout(binding = 4) writeonly buffer SomeCases { uint some_cases[]; };
layout(binding = 5) writeonly buffer AfterLoop { uint after_loop[]; };
layout(binding = 6) writeonly buffer InLoop { uint in_loop[]; };
layout(binding = 7) writeonly buffer DoLoop { uint do_loop[]; };
layout(binding = 8) writeonly buffer Early { uint early[]; };
layout(binding = 9) writeonly buffer Scattered { uint scattered[]; };
layout(binding = 10) writeonly buffer Twice { uint twice[]; };
layout(binding = 11) writeonly buffer Hit { uint hit[]; };
layout(binding = 12) writeonly buffer Total { uint total[]; };
layout(binding = 13) writeonly buffer Each { uint each[]; };
layout(binding = 14) writeonly buffer Strided { uint strided[]; };
layout(binding = 15) writeonly buffer Break { uint after_break[]; };

void maybe(uint i) {
    if (source[i] == 0) return;
    early[i] = 1;
}
void search(uint i) {
    for (uint k = 0; k < n; ++k) {
        if (source[k] == i) break;
        if (source[k] == 7) continue;
        hit[0] = k;
    }
    after_break[i] = 1;
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint x = source[i];
    if (x > 5) { both_sides[i] = x; } else { if (x > 3) both_sides[i] = 3; else both_sides[i] = 4; }
    if (x > 5) one_side[i] = x;
    switch (x) {
    case 0: all_cases[i] = 1; break;
    case 1: some_cases[i] = 1;
    case 2: all_cases[i] = 2; break;
    default: all_cases[i] = 3; some_cases[i] = 3;
    }
    uint sum = 0;
    for (uint k = 0; k < n; ++k) { sum += source[k]; in_loop[i] = sum; }
    after_loop[i] = sum;
    uint k = 0;
    do { do_loop[i] = k; ++k; } while (source[k] != 0);
    maybe(i);
    scattered[x] = 1;
    twice[x] = 1;
    twice[i] = 2;
    search(i);
    total[0] = sum;
    for (uint c = 0; c < w; ++c) each[i * w + c] = c;
    strided[2 * i] = 1;
}
