package openb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Trace holds the nodes and pods of the trace.
type Trace struct {
	Nodes []Node
	Pods  []Pod
	// Skipped is the number of invalid lines, which were skipped. First describes the first of
	// these lines.
	Skipped int
	First   string
}

// Node is a node of the trace. MilliCPU is its capacity in thousandths of a CPU, and MiB is its
// memory in MiB.
type Node struct {
	Name                string
	MilliCPU, MiB, GPUs int64
}

// Pod is a pod of the trace. All times are in seconds since the beginning of the trace.
type Pod struct {
	Name          string
	MilliCPU, MiB int64
	// MilliGPU is the sum of the pod's GPU requests, in thousandths of a GPU.
	MilliGPU int64
	QoS      string
	Created  int64
	// Scheduled is the time when the pod got its node, or -1 if it never got one.
	Scheduled int64
	Deleted   int64
}

// ErrFormat is wrapped by errors about a whole list, such as a missing column.
var ErrFormat = errors.New("not a list of the openb trace")

// These are the file names of the published lists.
const (
	NodeList = "openb_node_list_gpu_node.csv"
	PodList  = "openb_pod_list_default.csv"
)

// Read reads the list of nodes and the list of pods. It returns an error that wraps ErrFormat if a
// list has the wrong format or no valid lines.
func Read(nodes, pods io.Reader) (*Trace, error) {
	t := &Trace{}
	err := t.lines(NodeList, nodes, []string{"sn", "cpu_milli", "memory_mib", "gpu"}, func(l *line) {
		t.Nodes = append(t.Nodes, Node{Name: l.of("sn"), MilliCPU: l.number("cpu_milli"), MiB: l.number("memory_mib"), GPUs: l.number("gpu")})
		if l.fault != "" {
			t.Nodes = t.Nodes[:len(t.Nodes)-1]
		}
	})
	if err != nil {
		return nil, err
	}
	columns := []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time", "scheduled_time"}
	err = t.lines(PodList, pods, columns, func(l *line) {
		if p := l.pod(); l.fault == "" {
			t.Pods = append(t.Pods, p)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(t.Nodes) == 0 || len(t.Pods) == 0 {
		return nil, fmt.Errorf("%w: %d nodes and %d pods are left, with %d broken lines%s", ErrFormat, len(t.Nodes), len(t.Pods), t.Skipped, t.because())
	}
	return t, nil
}

func (t *Trace) because() string {
	if t.First == "" {
		return ""
	}
	return " (" + t.First + ")"
}

// line is one line of a list.
type line struct {
	columns []string
	fields  []string
	// fault describes the error in the line. It is empty if the line is valid.
	fault string
}

// lines calls the function each with every line of a list. The list must have the given columns. A
// value of the first column must not occur twice. Invalid lines are counted in Skipped.
func (t *Trace) lines(name string, from io.Reader, columns []string, each func(*line)) error {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	var head []string
	seen := make(map[string]bool)
	for n := 1; scanner.Scan(); n++ {
		text := strings.TrimRight(scanner.Text(), "\r")
		fields := strings.Split(text, ",")
		if head == nil {
			head = fields
			for _, c := range columns {
				if !slices.Contains(head, c) {
					return fmt.Errorf("%w: %s has no column %q in its first line", ErrFormat, name, c)
				}
			}
			continue
		}
		if text == "" {
			continue
		}
		l := &line{columns: head, fields: fields}
		switch {
		case len(fields) != len(head):
			l.fault = fmt.Sprintf("%d fields, and there are %d columns", len(fields), len(head))
		case fields[slices.Index(head, columns[0])] == "" || seen[fields[slices.Index(head, columns[0])]]:
			l.fault = fmt.Sprintf("%s %q is empty, or there twice", columns[0], fields[slices.Index(head, columns[0])])
		default:
			each(l)
		}
		if l.fault == "" {
			seen[l.of(columns[0])] = true
			continue
		}
		if t.Skipped++; t.Skipped == 1 {
			t.First = fmt.Sprintf("%s, line %d: %s", name, n, l.fault)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if head == nil {
		return fmt.Errorf("%w: %s is empty", ErrFormat, name)
	}
	return nil
}

func (l *line) of(column string) string { return l.fields[slices.Index(l.columns, column)] }

// largest is the maximum value of a number in the trace. It is low enough that sums do not
// overflow.
const largest = 1 << 40

// number returns a column's value as a number. It sets fault if the value is not a number from 0 to
// largest.
func (l *line) number(column string) int64 {
	v, err := strconv.ParseInt(l.of(column), 10, 64)
	if err != nil || v < 0 || v > largest {
		l.fault = fmt.Sprintf("%s is %q, and has to be a number", column, l.of(column))
	}
	return v
}

func (l *line) pod() Pod {
	p := Pod{
		Name: l.of("name"), MilliCPU: l.number("cpu_milli"), MiB: l.number("memory_mib"), QoS: l.of("qos"),
		Created: l.number("creation_time"), Deleted: l.number("deletion_time"), Scheduled: -1,
	}
	if gpus := l.number("num_gpu"); gpus > 0 {
		share := l.number("gpu_milli")
		if p.MilliGPU = gpus * share; gpus > 1<<20 || share > 1<<20 {
			l.fault = "more GPUs than there can be"
		}
	}
	if l.of("scheduled_time") != "" {
		p.Scheduled = l.number("scheduled_time")
	}
	if l.fault == "" && p.Deleted < max(p.Created, p.Scheduled) {
		l.fault = fmt.Sprintf("deletion_time %d is before the pod came, or ran", p.Deleted)
	}
	return p
}

// Thin reduces the trace to count nodes, selected at equal distances in the list. If count is 0 or
// larger than the number of nodes, it keeps all nodes.
func (t *Trace) Thin(count int) {
	if count <= 0 || count >= len(t.Nodes) {
		return
	}
	some := make([]Node, count)
	for i := range some {
		some[i] = t.Nodes[i*len(t.Nodes)/count]
	}
	t.Nodes = some
}
