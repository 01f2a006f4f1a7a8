#version 450
// One dimension of 32 invocations a group, and the ways to keep those beyond the end from storing.
layout(local_size_x = 32) in;
layout(constant_id = 0) const uint most = 50;
layout(push_constant) uniform Push { uint n; uint flag; uint first; int signed_n; };
layout(binding = 0) writeonly buffer Whole { uint whole[]; };
layout(binding = 1) writeonly buffer Less { uint less[]; };
layout(binding = 2) writeonly buffer LessOrEqual { uint less_or_equal[]; };
layout(binding = 3) writeonly buffer Mirrored { uint mirrored[]; };
layout(binding = 4) writeonly buffer Early { uint early[]; };
layout(binding = 5) writeonly buffer Signed { uint as_signed[]; };
layout(binding = 6) writeonly buffer OwnLength { uint own_length[]; };
layout(binding = 7) writeonly buffer OtherLength { uint other_length[]; };
layout(binding = 8) writeonly buffer Constant { uint by_constant[]; };
layout(binding = 9) writeonly buffer Nested { uint nested[]; };
layout(binding = 10) writeonly buffer Joined { uint joined[]; };
layout(binding = 11) writeonly buffer Window { uint window[]; };
layout(binding = 12) writeonly buffer Shifted { uint shifted[]; };
layout(binding = 13) writeonly buffer Optional { uint optional[]; };
layout(binding = 14) writeonly buffer NotFirst { uint not_first[]; };
layout(binding = 15) writeonly buffer Clamped { uint clamped[]; };

void early_return(uint i) {
    if (i >= n) return;
    if (!(i <= 60)) return;
    early[i] = i;
}
void either_return(uint i) {
    if (i < first || i >= n) return;
    window[i] = i;
}
bool is_inside(uint i) { return i < n && i < most; }

void main() {
    uint i = gl_GlobalInvocationID.x;
    whole[i] = i;
    if (i < n) less[i] = i;
    if (i <= n) less_or_equal[i] = i;
    if (n > i) mirrored[i] = i;
    early_return(i);
    int j = int(i);
    if (j < signed_n) as_signed[j] = i;
    if (i < own_length.length()) own_length[i] = i;
    if (i >= own_length.length()) { } else other_length[i] = i;
    if (i < most) by_constant[i] = i;
    if (i < n) { if (i < most) { if (flag != 0) nested[i] = i; } }
    if (is_inside(i)) joined[i] = i;
    either_return(i);
    if (i < n) shifted[first + i] = i;
    if (flag == 1) optional[i] = i;
    if (i != 0) not_first[i - 1] = i;
    clamped[min(i, n)] = i;
}
