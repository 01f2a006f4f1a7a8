#version 450
// Two and three dimensions in groups of 8 x 4 x 2.
layout(local_size_x = 8, local_size_y = 4, local_size_z = 2) in;
layout(constant_id = 0) const uint width = 16;
layout(push_constant) uniform Push { uint w; uint h; uint d; uint n; };
layout(binding = 0) writeonly buffer Plain { uint plain[]; };
layout(binding = 1) writeonly buffer Picture { uint picture[]; };
layout(binding = 2) writeonly buffer Volume { uint volume[]; };
layout(binding = 3) writeonly buffer Constant { uint by_constant[]; };
layout(binding = 4) writeonly buffer Index { uint by_index[]; };
layout(binding = 5) writeonly buffer Grid { uint by_grid[]; };
layout(binding = 6) writeonly buffer Vector { uint by_vector[]; };
layout(binding = 7) writeonly buffer Columns { uint columns[]; };
layout(binding = 8) writeonly buffer Reversed { uint reversed[]; };
layout(binding = 9) writeonly buffer Parts { uint by_parts[]; };
layout(binding = 10) writeonly buffer Groups { uint by_group[]; };
layout(binding = 11) writeonly buffer Local { uint by_local[]; };
layout(binding = 12) writeonly buffer OneSide { uint one_side[]; };
layout(binding = 13) writeonly buffer Big { uint big[]; };

void guarded_picture(uvec2 at) {
    if (at.x >= w || at.y >= h) return;
    picture[at.y * w + at.x] = 1;
}
void guarded_vector(ivec2 at) {
    if (any(greaterThanEqual(at, ivec2(w, h)))) return;
    by_vector[at.y * int(w) + at.x] = 1;
}

void main() {
    uvec3 at = gl_GlobalInvocationID;
    plain[at.y * w + at.x] = 1;
    guarded_picture(at.xy);
    if (at.x < w && at.y < h && at.z < d) volume[(at.z * h + at.y) * w + at.x] = 1;
    if (at.x < width) by_constant[at.y * width + at.x] = 1;
    uint i = at.y * w + at.x;
    if (i < n) by_index[i] = 1;
    by_grid[at.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x + at.x] = 1;
    guarded_vector(ivec2(at.xy));
    if (at.x < w && at.y < h) columns[at.x * h + at.y] = 1;
    if (i < n) reversed[n - 1 - i] = 1;
    by_parts[gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = 1;
    if (gl_LocalInvocationIndex == 0) by_group[gl_WorkGroupID.x] = 1;
    by_local[gl_WorkGroupID.x * 64 + gl_LocalInvocationIndex] = 1;
    if (at.x < w) one_side[at.y * w + at.x] = 1;
    big[at.z * 262144 + at.y * 512 + at.x] = 1;
}
