package bench

import (
	"fmt"
	"strings"
	"testing"
)

// rival has the times of Reprieve and of upstream for the preemption by a gang, on one cluster.
type rival struct {
	name, shape  string
	nodes        int
	mine, theirs samples
	victims      [2]string
}

func (s *sizes) measureRivals(t *testing.T, r *report) {
	add := func(name string, shape shape, rounds int) {
		t.Run(fmt.Sprintf("%s/nodes=%d", name, shape.nodes), func(t *testing.T) {
			mine, theirs := face(t, shape.scene, rounds, s.laps)
			all := func(outcomes []outcome) string {
				tolls := make([]toll, len(outcomes))
				for i := range outcomes {
					tolls[i] = tollOf(outcomes[i], nil)
				}
				return span(tolls, func(t toll) int { return t.victims })
			}
			r.rivals = append(r.rivals, rival{
				name: name, nodes: shape.nodes, mine: tookOf(mine), theirs: tookOf(theirs), victims: [2]string{all(mine), all(theirs)},
				shape: fmt.Sprintf("%s nodes, %s pods, gang of %s", thousands(shape.nodes), thousands(shape.pods()), thousands(shape.gang)),
			})
		})
	}
	add("half the room", contestShape(s.contest), s.faceRounds)
	for i, nodes := range s.rivals {
		// Upstream takes longer on larger clusters, so they have fewer rounds.
		add("a tenth of the nodes", gangShape(nodes), max(2, s.faceRounds/(1+i)))
	}
}

// writeRivals writes the table with the times of Reprieve and upstream for the preemption by a
// gang.
func (r *report) writeRivals(b *strings.Builder) {
	b.WriteString(`
### A gang beside upstream

Each row is the decision for one gang, with its CPU time and the number of victims. The ratios are
upstream's time divided by Reprieve's.

`)
	row(b, "Gang", "Reprieve CPU p50", "p99", "n", "Victims", "Upstream CPU p50", "p99", "n", "Victims", "Ratio of p50", "of p99")
	rule(b, "l", "r", "r", "r", "r", "r", "r", "r", "r", "r", "r")
	for i := range r.rivals {
		x := &r.rivals[i]
		row(b, x.name+": "+x.shape, duration(x.mine.percentile(50)), duration(x.mine.percentile(99)), thousands(len(x.mine)), x.victims[0],
			duration(x.theirs.percentile(50)), duration(x.theirs.percentile(99)), thousands(len(x.theirs)), x.victims[1],
			times(float64(x.theirs.percentile(50))/float64(x.mine.percentile(50))),
			times(float64(x.theirs.percentile(99))/float64(x.mine.percentile(99))))
	}
	if len(r.rivals) < 2 {
		return
	}
	// All rows except the first have the same kind of gang. So only these rows show how the time
	// grows with the nodes.
	small, large := &r.rivals[1], &r.rivals[len(r.rivals)-1]
	if nodes := [2]int{small.nodes, large.nodes}; nodes[0] < nodes[1] {
		fmt.Fprintf(b, "\nFrom %s to %s nodes, Reprieve's time grows with the nodes to the power of %.2f, upstream's with the power of %.2f.\n",
			thousands(nodes[0]), thousands(nodes[1]), exponent(small.mine, large.mine, nodes), exponent(small.theirs, large.theirs, nodes))
	}
}
