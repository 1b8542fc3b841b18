package podstatus

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
)

func TestNominate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pod       *corev1.Pod
		node      string
		framework bool
		want      []string
	}{
		"a node":                              {pod: newPod("p"), node: "n", want: []string{"p: node n"}},
		"another node":                        {pod: nominated("p", "old"), node: "n", want: []string{"p: node n"}},
		"none any more":                       {pod: nominated("p", "old"), want: []string{"p: no node"}},
		"what the API says already":           {pod: nominated("p", "n"), node: "n"},
		"what the framework says by itself":   {pod: newPod("p"), node: "n", framework: true},
		"none, which the framework will say":  {pod: nominated("p", "old"), framework: true},
		"none for one that never had a place": {pod: newPod("p")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bench) {
				b.nominate(Nomination{Pod: c.pod, Node: c.node, ByFramework: c.framework})
				b.expect(c.want...)
			}, c.pod)
		})
	}
}

// TestNominationSaysWhy checks that the condition of a nomination is written in the same call as
// the node. The condition must not cause a call if the node is in the API.
func TestNominationSaysWhy(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.nominate(Nomination{Pod: pod, Node: "n", Saying: unscheduled("room is made")})
		b.expect("p: node n room is made")
		b.writer.Say(pod, *unscheduled("room is made"))
		b.nominate(Nomination{Pod: pod, Node: "n", Saying: unscheduled("room is still made")})
		b.expect()
		b.nominate(Nomination{Pod: pod, Node: "m", Saying: unscheduled("room is still made")})
		b.expect("p: node m room is still made")
	}, pod)
}

// TestNominationThatIsKnown checks a nomination with a condition whose node is in the API already.
// In this case, the condition must not be written either.
func TestNominationThatIsKnown(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		claims := b.writer.Nominate([]Nomination{{Pod: pod, Node: "n"}})
		b.nominate(Nomination{Pod: pod, Node: "n"})
		b.expect("p: node n")
		claims = append(claims, b.writer.Nominate([]Nomination{{Pod: pod, Node: "n", Saying: unscheduled("room is made")}})...)
		b.writer.Say(pod, *resized("it is resized"))
		b.expect("p: it is resized")
		b.writeAll(claims)
		b.expect()
	}, pod)
}

// TestNominationThatIsWithdrawn withdraws a nomination before it is written. The nomination must
// cause no call, and its condition must not replace a later condition.
func TestNominationThatIsWithdrawn(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		claims := b.writer.Nominate([]Nomination{{Pod: pod, Node: "n", Saying: unscheduled("room is made")}})
		b.nominate(Nomination{Pod: pod})
		b.writeAll(claims)
		b.expect()
		claims = b.writer.Nominate([]Nomination{{Pod: pod, Node: "n", Saying: unscheduled("room is made")}})
		b.nominate(Nomination{Pod: pod, Node: "m"})
		b.writeAll(claims)
		b.expect("p: node m")
		claims = b.writer.Nominate([]Nomination{{Pod: pod, Node: "o", Saying: unscheduled("room is made")}})
		b.writer.Say(pod, *unscheduled("no room after all"))
		synctest.Wait()
		b.writeAll(claims)
		b.expect("p: node o no room after all")
	}, pod)
}

// TestWithdrawalThatFails checks that the removal of a nomination is tried again after a failure,
// at growing intervals. The tries end when one succeeds or the pod is deleted. Without these tries,
// the nomination of a gated pod could stay forever, because such a pod may never get another
// status.
func TestWithdrawalThatFails(t *testing.T) {
	t.Parallel()
	pod := newPod("p")
	cases := map[string]struct {
		// then is the API server's last answer.
		then error
	}{
		"until it has come through": {},
		"until the pod has gone":    {then: apierrors.NewNotFound(corev1.Resource("pods"), "p")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bench) {
				b.nominate(Nomination{Pod: pod, Node: "n"})
				b.expect("p: node n")
				b.answering(func(string) error { return apierrors.NewInternalError(errors.New("x")) })
				for _, claim := range b.writer.Nominate([]Nomination{{Pod: pod}}) {
					if err := b.writer.Write(b.t.Context(), claim); err == nil {
						t.Error("No error")
					}
				}
				b.expect("p: no node")
				time.Sleep(10 * longestAgain)
				synctest.Wait()
				tries := len(b.calls)
				// Each try makes four calls within a short time.
				if least, most := 4*10, 4*14; tries < least || tries > most {
					t.Errorf("%d calls, want %d to %d", tries, least, most)
				}
				b.answering(func(string) error { return c.then })
				time.Sleep(longestAgain + time.Second)
				b.expect(slices.Repeat([]string{"p: no node"}, tries+1)...)
				time.Sleep(10 * longestAgain)
				b.expect()
				b.nominate(Nomination{Pod: pod})
				if n := len(b.writer.slots); n != 0 {
					t.Errorf("%d pods are remembered", n)
				}
			}, pod)
		})
	}
}

// TestNominationsOvertake checks that a nomination is written before the waiting conditions of many
// other pods.
func TestNominationsOvertake(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 200 {
		pods = append(pods, newPod(fmt.Sprint("p-", i)))
	}
	in(t, func(b *bench) {
		b.limiter = flowcontrol.NewTokenBucketRateLimiter(1, 1)
		for _, pod := range pods[1:] {
			b.says(pod, "no room", nil)
		}
		synctest.Wait()
		b.says(pods[0], "no room", to("n"))
		time.Sleep(2 * workers * time.Second)
		synctest.Wait()
		if !slices.Contains(b.calls, "p-0: node n no room") {
			t.Errorf("It is not among %q", b.calls)
		}
	}, pods...)
}
