package core

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	traceNodes = flag.String("core.trace.nodes", "", "a node list of the openb trace (CSV) to use in place of testdata/openb")
	tracePods  = flag.String("core.trace.pods", "", "a pod list of the openb trace (CSV) to use in place of testdata/openb")
	traceWrite = flag.Bool("core.trace.write", false, "write testdata/openb/openb.txt from -core.trace.nodes and -core.trace.pods")
)

// trace has the nodes and pods of the openb trace, in the order of the published lists.
type trace struct {
	nodes []Amounts
	pods  []tracePod
}

// tracePod is a pod of the trace. CPU and GPU are in thousandths, memory is in MiB.
type tracePod struct {
	request Amounts
	qos     string
}

var traceResources = []string{"cpu", "memory", "gpu"}

// loadTrace reads testdata/openb, or the lists that the flags name.
func loadTrace(t *testing.T) *trace {
	t.Helper()
	path := filepath.Join("testdata", "openb", "openb.txt")
	if *traceNodes != "" && *tracePods != "" {
		tr := readTraceLists(t, *traceNodes, *tracePods)
		if *traceWrite {
			if err := os.WriteFile(path, []byte(tr.compact()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return tr
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := readCompact(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tr
}

// readTraceLists reads the lists in their published format.
func readTraceLists(t *testing.T, nodes, pods string) *trace {
	t.Helper()
	tr := &trace{}
	readList(t, nodes, func(_ func(string) string, number func(string) int64) {
		tr.nodes = append(tr.nodes, Amounts{number("cpu_milli"), number("memory_mib"), 1000 * number("gpu")})
	})
	readList(t, pods, func(of func(string) string, number func(string) int64) {
		tr.pods = append(tr.pods, tracePod{
			request: Amounts{number("cpu_milli"), number("memory_mib"), number("num_gpu") * number("gpu_milli")},
			qos:     of("qos"),
		})
	})
	return tr
}

func readList(t *testing.T, path string, row func(of func(string) string, number func(string) int64)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, r := range rows[1:] {
		of := func(name string) string { return r[slices.Index(rows[0], name)] }
		row(of, func(name string) int64 {
			v, err := strconv.ParseInt(cmp.Or(of(name), "0"), 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			return v
		})
	}
}

// compact returns the format of testdata/openb: the distinct shapes, then the lists as indexes of
// shapes with repeat counts.
func (tr *trace) compact() string {
	var b strings.Builder
	b.WriteString("# Nodes and pods of the openb trace; see README.md.\n")
	writeShapes(&b, "node", len(tr.nodes), func(i int) string { return joinAmounts(tr.nodes[i]) })
	writeShapes(&b, "pod", len(tr.pods), func(i int) string { return joinAmounts(tr.pods[i].request) + " " + tr.pods[i].qos })
	return b.String()
}

func joinAmounts(a Amounts) string { return strings.Trim(fmt.Sprint(a), "[]") }

func writeShapes(b *strings.Builder, kind string, count int, shape func(i int) string) {
	index := map[string]int{}
	for i := range count {
		if _, ok := index[shape(i)]; !ok {
			fmt.Fprintf(b, "%s %s\n", kind, shape(i))
			index[shape(i)] = len(index)
		}
	}
	var line []string
	for i := 0; i < count; {
		run := 1
		for i+run < count && shape(i+run) == shape(i) {
			run++
		}
		item := strconv.Itoa(index[shape(i)])
		if run > 1 {
			item += "*" + strconv.Itoa(run)
		}
		line = append(line, item)
		if i += run; len(line) == 25 || i == count {
			fmt.Fprintf(b, "%ss %s\n", kind, strings.Join(line, " "))
			line = nil
		}
	}
}

func readCompact(r io.Reader) (*trace, error) {
	tr := &trace{}
	var nodes []Amounts
	var pods []tracePod
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "node":
			a, err := parseAmounts(words[1:])
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, a)
		case "pod":
			a, err := parseAmounts(words[1 : len(words)-1])
			if err != nil {
				return nil, err
			}
			pods = append(pods, tracePod{request: a, qos: words[len(words)-1]})
		case "nodes", "pods":
			for _, w := range words[1:] {
				shape, run, repeated := strings.Cut(w, "*")
				if !repeated {
					run = "1"
				}
				n, err := parseAmounts([]string{shape, run})
				if err != nil {
					return nil, err
				}
				for range n[1] {
					if words[0] == "nodes" {
						tr.nodes = append(tr.nodes, nodes[n[0]])
					} else {
						tr.pods = append(tr.pods, pods[n[0]])
					}
				}
			}
		}
	}
	return tr, lines.Err()
}

func parseAmounts(words []string) (Amounts, error) {
	var a Amounts
	for _, w := range words {
		v, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	return a, nil
}

// traceLevels returns the first priority level of a QoS class and its number of levels. There are
// ten levels in all.
func traceLevels(qos string) (from, count int) {
	switch qos {
	case "BE":
		return 0, 4
	case "Burstable":
		return 3, 3
	case "LS":
		return 4, 5
	default:
		return 9, 1
	}
}

// fill adds pods of the trace to some of its nodes by best fit. It starts with a random pod and
// stops after a number of consecutive pods that do not fit. step is the distance between two
// priority levels.
func (tr *trace) fill(r *rand.Rand, nodes []int, step int32) *Snapshot {
	b := clusterOf(traceResources...)
	for i, n := range nodes {
		b.node(fmt.Sprintf("n%04d", i), tr.nodes[n]...)
	}
	first, refused := r.IntN(len(tr.pods)), 0
	for i := 0; i < len(tr.pods) && refused < 50; i++ {
		p := &tr.pods[(first+i)%len(tr.pods)]
		best := -1
		for n := range b.s.Nodes {
			if fits(p.request, b.s.Nodes[n].Free) && (best < 0 || fuller(&b.s.Nodes[n], &b.s.Nodes[best])) {
				best = n
			}
		}
		if best < 0 {
			refused++
			continue
		}
		refused = 0
		from, count := traceLevels(p.qos)
		b.podOf(fmt.Sprintf("p%04d", i), b.s.Nodes[best].Name, step*int32(from+r.IntN(count)), p.request, startedAt(int64(1+i)), isSurplus(i%3 == 0))
	}
	return b.snapshot()
}

// fuller reports whether a node has fewer free GPUs than another node, or the same number and less
// free CPU.
func fuller(a, b *Node) bool {
	if a.Free[2] != b.Free[2] {
		return a.Free[2] < b.Free[2]
	}
	return a.Free[0] < b.Free[0]
}

// sample returns the sorted indexes of count random nodes of the trace.
func (tr *trace) sample(r *rand.Rand, count int) []int {
	nodes := r.Perm(len(tr.nodes))[:min(count, len(tr.nodes))]
	slices.Sort(nodes)
	return nodes
}

// member returns the request of a random pod of the trace with the given GPUs, in thousandths. If 0
// < gpu < 1000, any pod with a share of one GPU matches.
func (tr *trace) member(r *rand.Rand, gpu int64) Amounts {
	var like []Amounts
	for i := range tr.pods {
		if g := tr.pods[i].request[2]; g == gpu || 0 < gpu && gpu < 1000 && 0 < g && g < 1000 {
			like = append(like, tr.pods[i].request)
		}
	}
	return like[r.IntN(len(like))]
}
