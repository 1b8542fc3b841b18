package metrics

import (
	"errors"
	"fmt"
	"slices"

	k8smetrics "k8s.io/component-base/metrics"
)

// Type is the type of a metric.
type Type string

const (
	// Counter only grows.
	Counter Type = "counter"
	// Gauge grows and falls.
	Gauge Type = "gauge"
	// Histogram counts observations in buckets.
	Histogram Type = "histogram"
)

// Description describes a metric. docs/troubleshooting.md has a row for each, which `make generate`
// writes.
type Description struct {
	// Name is the name of the metric, without the prefix "reprieve_".
	Name string
	// Help says what the metric measures. It is the help text at /metrics.
	Help string
	// Advice says how to read the metric and when to act, in Markdown; "" for none. Only the page
	// has it.
	Advice string
	// Type is set by the constructor.
	Type   Type
	Labels []Label
}

// Label is a label of a metric.
type Label struct {
	Name string
	// values are all values of the label. They are nil if the process learns the values while it
	// runs.
	values []string
}

// profileLabel is the name of the label with the profile of the preemptor. [Metrics.Serves] adds
// its values.
const profileLabel = "profile"

// closed returns a label with a fixed set of values.
func closed[T ~string](name string, values ...T) Label {
	l := Label{Name: name}
	for _, v := range values {
		l.values = append(l.values, string(v))
	}
	return l
}

// open returns a label whose values the process learns while it runs.
func open(name string) Label { return Label{Name: name} }

// catalog makes the metrics of a process, registers them, and lets them begin at 0.
//
// Prometheus sees no increase in a counter that appears with its first event. So the first failure
// would trigger no alert, and the dashboard would miss the first events after a restart. All series
// whose label values are known exist before their first event.
type catalog struct {
	entries []entry
}

// entry is a metric of a catalog.
type entry struct {
	Description
	metric k8smetrics.Registerable
	// begin creates the series with these values of the labels; nil for a metric without labels.
	begin func(values ...string)
}

func (c *catalog) counter(d Description) *k8smetrics.CounterVec {
	v := k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{Namespace: namespace, Name: d.Name, Help: d.Help, StabilityLevel: k8smetrics.ALPHA}, d.labelNames())
	c.add(d, Counter, v, func(values ...string) { v.WithLabelValues(values...) })
	return v
}

func (c *catalog) gauges(d Description) *k8smetrics.GaugeVec {
	v := k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{Namespace: namespace, Name: d.Name, Help: d.Help, StabilityLevel: k8smetrics.ALPHA}, d.labelNames())
	c.add(d, Gauge, v, func(values ...string) { v.WithLabelValues(values...).Set(0) })
	return v
}

func (c *catalog) gauge(d Description) *k8smetrics.Gauge {
	g := k8smetrics.NewGauge(&k8smetrics.GaugeOpts{Namespace: namespace, Name: d.Name, Help: d.Help, StabilityLevel: k8smetrics.ALPHA})
	c.add(d, Gauge, g, nil)
	return g
}

func (c *catalog) histogram(d Description, buckets []float64) *k8smetrics.HistogramVec {
	v := k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Namespace: namespace, Name: d.Name, Help: d.Help, Buckets: buckets, StabilityLevel: k8smetrics.ALPHA,
	}, d.labelNames())
	c.add(d, Histogram, v, func(values ...string) { v.WithLabelValues(values...) })
	return v
}

func (c *catalog) add(d Description, t Type, metric k8smetrics.Registerable, begin func(...string)) {
	d.Type = t
	c.entries = append(c.entries, entry{Description: d, metric: metric, begin: begin})
}

func (d *Description) labelNames() []string {
	var names []string
	for _, l := range d.Labels {
		names = append(names, l.Name)
	}
	return names
}

// hasProfile reports whether the metric has the label profile.
func (d *Description) hasProfile() bool {
	return slices.Contains(d.labelNames(), profileLabel)
}

// register registers all metrics. If no registration fails, the series without a profile begin.
func (c *catalog) register(register func(k8smetrics.Registerable) error) error {
	var errs []error
	for i := range c.entries {
		if err := register(c.entries[i].metric); err != nil {
			errs = append(errs, fmt.Errorf("register metric %s: %w", c.entries[i].metric.FQName(), err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for i := range c.entries {
		if e := &c.entries[i]; e.begin != nil && !e.hasProfile() {
			e.beginAll(e.Labels, "", nil)
		}
	}
	return nil
}

// serve lets the series of a profile begin.
func (c *catalog) serve(profile string) {
	for i := range c.entries {
		if e := &c.entries[i]; e.begin != nil && e.hasProfile() {
			e.beginAll(e.Labels, profile, nil)
		}
	}
}

// beginAll creates one series for each combination of label values. chosen has the values of the
// first labels, and left has the remaining labels. A label whose values are not known in advance
// gets its series later.
func (e *entry) beginAll(left []Label, profile string, chosen []string) {
	if len(left) == 0 {
		e.begin(chosen...)
		return
	}
	values := left[0].values
	if left[0].Name == profileLabel {
		values = []string{profile}
	}
	for _, v := range values {
		e.beginAll(left[1:], profile, append(slices.Clone(chosen), v))
	}
}

// Descriptions returns the descriptions of all metrics, in the order of the page.
func (m *Metrics) Descriptions() []Description {
	out := make([]Description, len(m.catalog.entries))
	for i := range m.catalog.entries {
		out[i] = m.catalog.entries[i].Description
	}
	return out
}
