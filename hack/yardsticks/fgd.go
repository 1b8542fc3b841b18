package main

import (
	"context"
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/openb"
)

//go:embed testdata/fgd.csv
var published embed.FS

const (
	// milliPerGPU is the amount of one GPU.
	milliPerGPU = 1000
	// wholeOfTotal is the total request of the arriving pods at the measurement, as a part of all
	// GPUs.
	wholeOfTotal = 1.0
)

// publication is a line of the results that the authors of FGD publish. It has the allocated and
// the fragmented part of all GPUs in percent, by policy.
type publication struct{ random, bestFit, fgd, randomFragmented, bestFitFragmented, fgdFragmented string }

// publications returns the published results by list.
func publications() (map[string]publication, error) {
	f, err := published.Open("testdata/fgd.csv")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	out := make(map[string]publication)
	for _, l := range lines[1:] {
		out[l[0]] = publication{l[1], l[2], l[3], l[4], l[5], l[6]}
	}
	return out, nil
}

// errTrace is returned if the row fgd has no lists to play.
var errTrace = errors.New("the row needs a directory of lists: -trace DIR, or TRACE=DIR for make")

// fgdText plays the lists of pods in the trace's directory and compares allocation and
// fragmentation.
func fgdText(ctx context.Context, r *run) (string, error) {
	theirs, err := publications()
	if err != nil {
		return "", err
	}
	lists, err := filepath.Glob(filepath.Join(r.trace, "openb_pod_list_*.csv"))
	if err != nil {
		return "", err
	}
	if r.trace == "" || len(lists) == 0 {
		return "", errTrace
	}
	t := &fgdTables{behind: make(map[string]float64)}
	for _, list := range lists {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), "openb_pod_list_"), ".csv")
		f, err := newFilling(filepath.Join(r.trace, openb.NodeList), list)
		if err != nil {
			return "", err
		}
		if f.gpuPods == 0 || f.models > 0 {
			t.unsupported = append(t.unsupported, name)
			continue
		}
		pub, ok := theirs[name]
		if !ok {
			pub = publication{"–", "–", "–", "–", "–", "–"}
		}
		means, err := f.means(ctx, r, name)
		if err != nil {
			return "", err
		}
		t.add(name, f, &pub, means)
	}
	return t.text(r.seeds), nil
}

// fgdTables are the two tables of the row.
type fgdTables struct {
	allocated, fragmented strings.Builder
	// lists counts the lists in the tables. behind has the lists where the criterion allocates less
	// than best fit, with the difference.
	lists       int
	behind      map[string]float64
	unsupported []string
}

// add adds the lines of a list.
func (t *fgdTables) add(name string, f *filling, pub *publication, m *means) {
	t.lists++
	difference := m.on.allocated - m.bestFit.allocated
	if difference < 0 {
		t.behind[name] = difference
	}
	fmt.Fprintf(&t.allocated, "| %s | %s %% | %s %% | %s %% | %d of %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %+.2f |\n",
		name, pub.fgd, pub.bestFit, pub.random, f.shares, f.shares+len(f.pods),
		m.bestFit.allocated, m.random.allocated, m.off.allocated, m.on.allocated, difference)
	fmt.Fprintf(&t.fragmented, "| %s | %s %% | %s %% | %s %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% |\n",
		name, pub.fgdFragmented, pub.bestFitFragmented, pub.randomFragmented,
		m.bestFit.fragmented, m.random.fragmented, m.off.fragmented, m.on.fragmented)
}

// text returns the block of the row.
func (t *fgdTables) text(seeds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Means of %d orders of arrival. GPUs that pods have, as a part of all GPUs:\n\n", seeds)
	b.WriteString("| List | FGD, published | BestFit, published | Random, published | Pods left out: shares of a GPU | " +
		"Best fit, here | Random, here | Reprieve, criterion off | Reprieve, criterion on | On − best fit, here |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + t.allocated.String())
	b.WriteString("\nFree GPUs that the next pod of the list cannot use, as a part of all GPUs:\n\n" +
		"| List | FGD, published | BestFit, published | Random, published | " +
		"Best fit, here | Random, here | Reprieve, criterion off | Reprieve, criterion on |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + t.fragmented.String())
	fmt.Fprintf(&b, "\nWith the criterion, the allocation is at least best fit's on %d of %d lists.\n", t.lists-len(t.behind), t.lists)
	for _, name := range slices.Sorted(maps.Keys(t.behind)) {
		fmt.Fprintf(&b, "Missed: %s, by %.2f points.\n", name, -t.behind[name])
	}
	if len(t.unsupported) > 0 {
		fmt.Fprintf(&b, "\nNot supported, because all pods share GPUs or name a model of GPU:\n%s.\n", strings.Join(t.unsupported, ", "))
	}
	return strings.ReplaceAll(b.String(), "– %", "–")
}

// filling fills the nodes of a trace with its pods. No pod ends.
type filling struct {
	nodes []core.Amounts
	pods  []core.Amounts
	// total is the sum of all GPUs. gpuPods counts the pods with whole GPUs, and models counts the
	// pods that name a model of GPU. shares counts the pods with a share of a GPU; the field pods
	// does not have these.
	total                   int64
	gpuPods, shares, models int
}

// cpus and gpus are the indexes of CPUs and GPUs in amounts. Memory is between them.
const cpus, gpus = 0, 2

// newFilling reads a list of nodes and a list of pods. Some lists have no times and no QoS, so
// package openb cannot read them.
func newFilling(nodes, pods string) (*filling, error) {
	f := &filling{}
	err := eachLine(nodes, func(l *line) {
		n := core.Amounts{l.number("cpu_milli"), l.number("memory_mib"), milliPerGPU * l.number("gpu")}
		f.nodes = append(f.nodes, n)
		f.total += n[gpus]
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(pods, func(l *line) {
		want := l.number("num_gpu")
		switch {
		case want > 0 && l.number("gpu_milli") < milliPerGPU:
			f.shares++
			return
		case want > 0:
			f.gpuPods++
		}
		if l.of["gpu_spec"] != "" {
			f.models++
		}
		f.pods = append(f.pods, core.Amounts{l.number("cpu_milli"), l.number("memory_mib"), milliPerGPU * want})
	})
	return f, err
}

// line is a line of a list, by column.
type line struct {
	of  map[string]string
	err error
}

// number returns a column as a number. The first error of a line is kept.
func (l *line) number(column string) int64 {
	n, err := strconv.ParseInt(l.of[column], 10, 64)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("column %s: %w", column, err)
	}
	return n
}

// eachLine calls a function for each line of a list whose first line names the columns.
func eachLine(name string, do func(*line)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) == 0 {
		return fmt.Errorf("read %s: %d lines: %w", name, len(lines), err)
	}
	for at, fields := range lines[1:] {
		l := &line{of: make(map[string]string, len(fields))}
		for i, field := range fields {
			l.of[lines[0][i]] = field
		}
		if do(l); l.err != nil {
			return fmt.Errorf("read %s, line %d: %w", name, at+2, l.err)
		}
	}
	return nil
}

// arrivals returns pods in a random order until they request all GPUs. If the whole list requests
// less, its pods arrive again, drawn at random.
func (f *filling) arrivals(random *rand.Rand) []core.Amounts {
	order, sum := random.Perm(len(f.pods)), int64(0)
	var out []core.Amounts
	for i := 0; float64(sum) < wholeOfTotal*float64(f.total); i++ {
		at := random.IntN(len(f.pods))
		if i < len(order) {
			at = order[i]
		}
		out = append(out, f.pods[at])
		sum += f.pods[at][gpus]
	}
	return out
}

// means has the mean results of several orders of arrival, by policy. off and on are Reprieve
// without and with the criterion of fragmentation.
type means struct{ bestFit, random, off, on filled }

// means plays several orders of arrival and returns the mean results.
func (f *filling) means(ctx context.Context, r *run, name string) (*means, error) {
	var sum means
	mix := f.criterion()
	for seed := range r.seeds {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		pods := f.arrivals(rand.New(rand.NewPCG(uint64(seed+1), 11)))
		off, err := f.byCore(pods, nil)
		if err != nil {
			return nil, err
		}
		on, err := f.byCore(pods, mix)
		if err != nil {
			return nil, err
		}
		draw := rand.New(rand.NewPCG(uint64(seed+1), 13))
		fit := f.fill(pods, f.leastLeft)
		drawn := f.fill(pods, func(_ []core.Amounts, fitting []int, _ core.Amounts) int { return fitting[draw.IntN(len(fitting))] })
		fmt.Fprintf(r.progress, "%s, order %d: criterion off %.2f, on %.2f, best fit %.2f, random %.2f\n",
			name, seed+1, off.allocated, on.allocated, fit.allocated, drawn.allocated)
		part := 1 / float64(r.seeds)
		sum.off.add(off, part)
		sum.on.add(on, part)
		sum.bestFit.add(fit, part)
		sum.random.add(drawn, part)
	}
	return &sum, nil
}

// add adds another result, weighted by part.
func (x *filled) add(o filled, part float64) {
	x.allocated += part * o.allocated
	x.fragmented += part * o.fragmented
}
