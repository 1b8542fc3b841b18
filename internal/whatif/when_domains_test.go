package whatif_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// racks adds nodes with 4 GPUs. A name such as "a-1" is the first node of rack a. The label zone is
// added if the name has three parts: "z-a-1".
func (s *scene) racks(names ...string) {
	for _, name := range names {
		n, parts := s.node(name, 4), strings.Split(name, "-")
		n.Labels["rack"] = parts[len(parts)-2]
		if len(parts) == 3 {
			n.Labels["zone"] = parts[0]
		}
	}
}

// busy adds a pod that uses a whole node and has the priority of the gang in TestWhenByDomain. It
// ends after the given time from now; 0 for a pod that declares no end.
func (s *scene) busy(node string, ends time.Duration) *corev1.Pod {
	p := s.running("on-"+node, "", node, 4, 10, time.Hour)
	if ends > 0 {
		p.Spec.ActiveDeadlineSeconds = ptr.To(int64((time.Hour + ends).Seconds()))
	}
	return p
}

// spread adds the gang "new" with two members of 4 GPUs. Each of the keys is a topology level. The
// mode of the last level is last.
func (s *scene) spread(last v1alpha1.TopologyMode, keys ...string) []*corev1.Pod {
	pg := s.group("new", 2, 10, v1alpha1.DisruptionModePod, "")
	var topology []v1alpha1.TopologyConstraint
	for i, key := range keys {
		mode := v1alpha1.TopologyModePreferred
		if i == len(keys)-1 {
			mode = last
		}
		topology = append(topology, v1alpha1.TopologyConstraint{Key: key, Mode: mode})
	}
	pg.Spec.SchedulingConstraints = &v1alpha1.SchedulingConstraints{Topology: topology}
	return members(s, "new", 2, 4, 10)
}

// describeBounds returns a line for the whole gang and one for each domain of each level.
func describeBounds(b *whatif.Bounds) []string {
	at := func(at *time.Time) string {
		if at == nil {
			return "unknown"
		}
		return at.Sub(noon).Round(time.Second).String()
	}
	line := at(b.AtTheLatest)
	for _, in := range b.In {
		line += " " + in.Key + "=" + in.Name
	}
	out := []string{line}
	for _, l := range b.Levels {
		for i := range l.Domains {
			d := &l.Domains[i]
			line := fmt.Sprintf("%s=%s %s", l.Key, d.Name, at(d.AtTheLatest))
			if d.NotBefore != nil {
				line += " not before " + at(d.NotBefore)
			}
			if r := d.Lacks; r != nil {
				line += fmt.Sprintf(" %d/%d of %d, %d endless", r.Room, r.AfterPreemption, r.Needed, r.Endless)
				for _, rule := range r.InTheWay {
					line += fmt.Sprintf(", %d %s", rule.Units, rule.Rule)
				}
				if r.Empty != nil {
					line += fmt.Sprintf(", empty %d", *r.Empty)
				}
			}
			out = append(out, line)
		}
		if l.Unlisted > 0 {
			out = append(out, fmt.Sprintf("%s: %d unlisted", l.Key, l.Unlisted))
		}
	}
	return out
}

// TestWhenByDomain checks the bounds of gangs with topology levels, for the whole gang and for each
// domain.
func TestWhenByDomain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(s *scene) []*corev1.Pod
		want  []string
		// then is a part of the reason for the latest start.
		then string
	}{
		"required": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("a-1", "a-2", "b-1", "b-2", "c-1", "d-1", "d-2")
				s.busy("a-1", time.Hour)
				s.busy("b-1", 30*time.Minute)
				s.busy("b-2", 40*time.Minute)
				s.busy("d-1", 0)
				return s.spread(v1alpha1.TopologyModeRequired, "rack")
			},
			want: []string{
				"40m0s rack=b", "rack=b 40m0s", "rack=a 1h0m0s",
				"rack=c unknown 1/1 of 2, 0 endless, empty 1", "rack=d unknown 1/1 of 2, 1 endless, 1 NotLowerPriority",
			},
			then: "activeDeadlineSeconds of pod ns/on-b-2",
		},
		"no domain has enough room": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("a-1", "a-2", "b-1")
				s.busy("a-1", 0)
				s.busy("a-2", time.Hour)
				return s.spread(v1alpha1.TopologyModeRequired, "rack")
			},
			want: []string{"unknown", "rack=a unknown 1/1 of 2, 1 endless, 1 NotLowerPriority", "rack=b unknown 1/1 of 2, 0 endless, empty 1"},
		},
		"more domains than are listed": {
			build: func(s *scene) []*corev1.Pod {
				for i := range 7 {
					rack := string(rune('a' + i))
					s.racks(rack+"-1", rack+"-2")
					s.busy(rack+"-1", time.Duration(i+1)*time.Hour)
				}
				s.racks("x-1", "y-1", "y-2")
				s.busy("y-1", 0)
				return s.spread(v1alpha1.TopologyModeRequired, "rack")
			},
			want: []string{
				"1h0m0s rack=a", "rack=a 1h0m0s", "rack=b 2h0m0s", "rack=c 3h0m0s", "rack=d 4h0m0s", "rack=e 5h0m0s", "rack: 4 unlisted",
			},
		},
		"as many domains as are listed, and others without enough room": {
			build: func(s *scene) []*corev1.Pod {
				for i := range 5 {
					rack := string(rune('a' + i))
					s.racks(rack+"-1", rack+"-2")
					s.busy(rack+"-1", time.Duration(i+1)*time.Hour)
				}
				s.racks("x-1")
				return s.spread(v1alpha1.TopologyModeRequired, "rack")
			},
			want: []string{
				"1h0m0s rack=a", "rack=a 1h0m0s", "rack=b 2h0m0s", "rack=c 3h0m0s", "rack=d 4h0m0s", "rack=e 5h0m0s",
				"rack=x unknown 1/1 of 2, 0 endless, empty 1",
			},
		},
		"a preferred level that the members do not share at first": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("a-1", "a-2", "b-1", "b-2")
				s.busy("a-1", 10*time.Minute)
				s.busy("a-2", 2*time.Hour)
				s.busy("b-1", 20*time.Minute)
				s.busy("b-2", 0)
				return s.spread(v1alpha1.TopologyModePreferred, "rack")
			},
			want: []string{"20m0s", "rack=a 2h0m0s", "rack=b unknown 1/1 of 2, 1 endless, 1 NotLowerPriority"},
		},
		"racks of one name in two zones": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("y-1-1", "y-1-2", "y-2-1", "z-1-1", "z-1-2")
				s.busy("y-1-1", time.Hour)
				s.busy("y-1-2", 30*time.Minute)
				s.busy("y-2-1", 10*time.Minute)
				s.busy("z-1-1", 2*time.Hour)
				s.busy("z-1-2", 20*time.Minute)
				return s.spread(v1alpha1.TopologyModeRequired, "rack", "zone")
			},
			want: []string{
				"30m0s zone=y", "rack=y/1 1h0m0s", "rack=z/1 2h0m0s", "rack=2 unknown 1/1 of 2, 0 endless, empty 1",
				"zone=y 30m0s", "zone=z 2h0m0s",
			},
		},
		"other members run in a domain": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("a-1", "a-2", "b-1", "b-2")
				s.busy("a-2", time.Hour)
				s.busy("b-1", time.Minute)
				pods := s.spread(v1alpha1.TopologyModeRequired, "rack")
				s.running("new-9", "new", "a-1", 4, 10, time.Hour)
				return pods[:1]
			},
			want: []string{"1h0m0s rack=a", "rack=a 1h0m0s"},
		},
		"a protection ends in one domain": {
			build: func(s *scene) []*corev1.Pod {
				s.queue("team", 8).Spec.PreemptMinRuntime = &metav1.Duration{Duration: 90 * time.Minute}
				s.racks("a-1", "a-2", "b-1", "b-2")
				for _, node := range []string{"a-1", "b-1"} {
					p := s.busy(node, 0)
					p.Labels[v1alpha1.LabelQueue], p.Spec.Priority = "team", ptr.To(int32(map[string]int{"a-1": 0, "b-1": 10}[node]))
				}
				pods := s.spread(v1alpha1.TopologyModeRequired, "rack")
				s.groups[0].Spec.QueueName = ptr.To("team")
				return pods
			},
			want: []string{
				"30m0s rack=a", "rack=a 30m0s not before 30m0s", "rack=b unknown 1/1 of 2, 1 endless, 1 NotLowerPriority",
			},
			then: "protections have ended by then",
		},
		"members that must be near a pod that runs": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("a-1", "a-2", "a-3", "b-1", "b-2")
				s.busy("a-1", 0).Labels["app"] = "db"
				s.busy("a-2", 0)
				s.busy("b-1", time.Hour)
				pods := s.spread(v1alpha1.TopologyModeRequired, "rack")
				for _, p := range pods {
					p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
							LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, TopologyKey: "rack",
						}},
					}}
				}
				return pods
			},
			want: []string{
				"unknown", "rack=a unknown 1/1 of 2, 2 endless, 2 NotLowerPriority", "rack=b unknown 0/0 of 2, 0 endless",
			},
		},
		"victims in a domain": {
			build: func(s *scene) []*corev1.Pod {
				s.racks("a-1", "a-2", "b-1")
				s.busy("a-1", 0).Spec.Priority = ptr.To(int32(0))
				return s.spread(v1alpha1.TopologyModeRequired, "rack")
			},
			want: []string{"30s rack=a"},
			then: "pods in the way are at the end of their grace periods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			pods := c.build(s)
			objects, key := s.inventory(t, pods...), types.NamespacedName{Namespace: "ns", Name: pods[0].Name}
			cluster, err := whatif.New(t.Context(), objects, configuration(t))
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			step, err := cluster.Decide(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := whatif.When(t.Context(), objects, configuration(t), key, &step, nil)
			if err != nil {
				t.Fatal(err)
			}
			if lines := describeBounds(got); !slices.Equal(lines, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
			if !strings.Contains(got.Then, c.then) {
				t.Errorf("the reason is %q, want %q", got.Then, c.then)
			}
		})
	}
}
