// Bodies that attract each other, by an octree that each step builds anew, one object a cell, and
// takes down again.
//
// Source: barnes of mimalloc-bench, after Barnes and Hut, "A hierarchical O(N log N)
// force-calculation algorithm", Nature 324, 1986: a group of bodies that looks small from where a
// force is felt counts as one. It allocates little for what it computes. The root has to have the
// mass of all bodies and their centre, and the first body's acceleration is compared with the sum
// over all others. An operation is one cell.
#include <array>
#include <cmath>
#include <utility>

#include "common.h"

namespace {

using Vector = std::array<double, 3>;

struct Body {
  Vector place, speed;
};

// With one body, or with cells. `sum` is that of its bodies' places, each of mass 1.
struct Cell {
  Vector middle;
  double half;
  double mass;
  Vector sum;
  const Body* body;
  Cell* cells[8];
};

uint64_t made = 0;
uint64_t taken_down = 0;

Cell* make(const Vector& middle, double half) {
  auto* cell = static_cast<Cell*>(bench::allocate(sizeof(Cell)));
  *cell = {middle, half, 0, {}, nullptr, {}};
  made++;
  return cell;
}

// The cell of the next level in which a place is.
Cell*& below(Cell* cell, const Vector& place) {
  unsigned octant = 0;
  Vector middle = cell->middle;
  for (unsigned d = 0; d < 3; d++) {
    bool high = place[d] > cell->middle[d];
    octant |= unsigned{high} << d;
    middle[d] += high ? cell->half / 2 : -cell->half / 2;
  }
  Cell*& next = cell->cells[octant];
  if (next == nullptr) next = make(middle, cell->half / 2);
  return next;
}

void insert(Cell* cell, const Body& body) {
  // Doubles that differ are apart after so many halvings.
  for (int level = 0; level < 1100; level++) {
    const Body* other = std::exchange(cell->body, nullptr);
    if (cell->mass == 0) cell->body = &body;
    if (other != nullptr) {
      Cell* next = below(cell, other->place);
      next->mass = 1;
      next->sum = other->place;
      next->body = other;
    }
    cell->mass += 1;
    for (unsigned d = 0; d < 3; d++) cell->sum[d] += body.place[d];
    if (cell->body != nullptr) return;
    cell = below(cell, body.place);
  }
  bench::fail("a cell was overwritten");
}

void attract(const Vector& place, const Vector& to, double mass, Vector& force) {
  Vector way;
  double square = 1e-4;  // two that are very close do not fly off
  for (unsigned d = 0; d < 3; d++) {
    way[d] = to[d] - place[d];
    square += way[d] * way[d];
  }
  double pull = mass / (square * std::sqrt(square));
  for (unsigned d = 0; d < 3; d++) force[d] += pull * way[d];
}

void attract(const Cell* cell, const Body& body, Vector& force) {
  if (cell->body == &body) return;
  Vector centre;
  double square = 0;
  for (unsigned d = 0; d < 3; d++) {
    centre[d] = cell->sum[d] / cell->mass;
    square += (centre[d] - body.place[d]) * (centre[d] - body.place[d]);
  }
  // As wide as half of the distance: an angle of 0.5.
  if (cell->body != nullptr || 16 * cell->half * cell->half < square) {
    attract(body.place, centre, cell->mass, force);
    return;
  }
  for (const Cell* each : cell->cells) {
    if (each != nullptr) attract(each, body, force);
  }
}

void take_down(Cell* cell) {
  for (Cell* each : cell->cells) {
    if (each != nullptr) take_down(each);
  }
  bench::release(cell);
  taken_down++;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t count = arguments.number("bodies", 3000, 2, 10'000'000);
  uint64_t steps = arguments.number("steps", 25);
  arguments.finish();

  bench::Table<Body> bodies(count);
  bench::Table<Vector> forces(count);
  bench::Random random(1);
  for (Body& body : bodies) {
    for (double& x : body.place) x = random.next() / 4294967296.0;
  }
  bench::Team team;
  double seconds = team.run_here([&] {
    for (uint64_t step = 0; step < steps; step++) {
      double half = 0;
      Vector sum{};
      for (const Body& body : bodies) {
        for (unsigned d = 0; d < 3; d++) {
          half = std::max(half, std::abs(body.place[d]));
          sum[d] += body.place[d];
        }
      }
      Cell* root = make({}, half);
      for (const Body& body : bodies) insert(root, body);
      if (root->mass != static_cast<double>(count) || root->sum != sum) {
        bench::fail("the root was overwritten");
      }
      for (size_t i = 0; i < count; i++) attract(root, bodies[i], forces[i] = {});
      Vector exact{};
      for (size_t i = 1; i < count; i++) attract(bodies[0].place, bodies[i].place, 1, exact);
      double error = 0;
      for (unsigned d = 0; d < 3; d++) error += std::abs(forces[0][d] - exact[d]);
      double size = std::abs(exact[0]) + std::abs(exact[1]) + std::abs(exact[2]);
      if (!(error < 0.1 * size)) bench::fail("a force is wrong: a cell was overwritten");
      double interval = 1e-3 / std::sqrt(static_cast<double>(count));
      for (size_t i = 0; i < count; i++) {
        for (unsigned d = 0; d < 3; d++) {
          bodies[i].speed[d] += forces[i][d] * interval;
          bodies[i].place[d] += bodies[i].speed[d] * interval;
        }
      }
      take_down(root);
    }
  });
  if (made != taken_down) bench::fail("%" PRIu64 " cells of %" PRIu64, taken_down, made);
  bench::Result("barnes", seconds, taken_down, team).live(made / steps * sizeof(Cell)).print();
}
