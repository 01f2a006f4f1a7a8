#version 450
// Push constants of every shape.
layout(local_size_x = 1) in;
struct Part { vec3 a; float b; };
layout(push_constant) uniform Push {
    layout(offset = 16) float first;
    mat3x2 columns;
    layout(row_major) mat3x2 rows;
    Part parts[2];
    uint list[3];
} push;
layout(set = 0, binding = 0) buffer Target { float v[]; } target;
void main() {
    target.v[0] = push.first + push.columns[1][1] + push.rows[2][1] + push.parts[1].b + float(push.list[2]);
}
