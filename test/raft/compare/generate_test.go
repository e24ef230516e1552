// Random scenarios, decided by a seed, with what upstream's own harness says to each directive.
//
//	FIRST=1 COUNT=300 OUT=folder go test .
//
// writes COUNT files that test/scenario/raft_data runs. A directive that upstream panics at is left out. Between the
// directives nothing is left to chance: an election timeout is always set before a tick.
package compare

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/rafttest"
)

type directive struct{ line, input, output string }

type script struct {
	t     *testing.T
	r     *rand.Rand
	env   *rafttest.InteractionEnv
	done  []directive
	async bool
	wild  bool
	// An entry that replaces a refused change is two bytes longer than upstream's format says, so limits in bytes and
	// changes are not mixed.
	changes, byteLimit bool
}

// Upstream's tests set it from inside.
func setTimeout(n *raft.RawNode, ticks int) {
	f := reflect.ValueOf(n).Elem().FieldByName("raft").Elem().FieldByName("randomizedElectionTimeout")
	*(*int)(unsafe.Pointer(f.UnsafeAddr())) = ticks
}

func newEnv() *rafttest.InteractionEnv {
	return rafttest.NewInteractionEnv(&rafttest.InteractionOpts{SetRandomizedElectionTimeout: setTimeout})
}

// duplicate-msgs is a directive of our own.
func duplicate(env *rafttest.InteractionEnv, to uint64) string {
	for _, m := range env.Messages {
		if m.GetTo() == to && m.GetType() != raftpb.MsgStorageApplyResp {
			env.Messages = append(env.Messages, proto.Clone(m).(*raftpb.Message))
		}
	}
	return "ok"
}

// Go's text of a message is not stable, and ours leaves it out.
var confText = regexp.MustCompile(`ConfState .*; should`)

func handle(t *testing.T, env *rafttest.InteractionEnv, line, input string) (out string, panicked bool) {
	defer func() { panicked = recover() != nil }()
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	if cmd == "duplicate-msgs" {
		to, _ := strconv.ParseUint(args[0].Key, 10, 64)
		return duplicate(env, to), false
	}
	out = env.Handle(t, datadriven.TestData{Cmd: cmd, CmdArgs: args, Input: input})
	return confText.ReplaceAllString(out, "ConfState; should"), false
}

func (s *script) change(line, input string) {
	out, panicked := handle(s.t, s.env, line, input)
	if !panicked {
		s.done = append(s.done, directive{line, input, out})
		return
	}
	s.env = newEnv()
	for _, d := range s.done {
		out, panicked := handle(s.t, s.env, d.line, d.input)
		if panicked || out != d.output {
			s.t.Fatalf("upstream gave two answers to %s:\n%s\n%s", d.line, d.output, out)
		}
	}
}

func (s *script) do(format string, args ...any) { s.change(fmt.Sprintf(format, args...), "") }

// --- dice ---

func (s *script) chance(percent int) bool  { return s.r.Intn(100) < percent }
func (s *script) pick(xs ...string) string { return xs[s.r.Intn(len(xs))] }
func (s *script) node() int                { return 1 + s.r.Intn(len(s.env.Nodes)) }
func (s *script) anyone() int              { return 1 + s.r.Intn(len(s.env.Nodes)+1) }

func (s *script) nodes(n int) string {
	var ids []string
	for range n {
		ids = append(ids, strconv.Itoa(s.node()))
	}
	return strings.Join(ids, " ")
}

func (s *script) some(but int) string {
	var ids []string
	for i := range s.env.Nodes {
		if i+1 != but && s.chance(80) {
			ids = append(ids, strconv.Itoa(i+1))
		}
	}
	if len(ids) == 0 {
		return strconv.Itoa(s.node())
	}
	return strings.Join(ids, " ")
}

func (s *script) leader() int {
	found := 0
	for i := range s.env.Nodes {
		if s.env.Nodes[i].BasicStatus().RaftState == raft.StateLeader && (found == 0 || s.chance(50)) {
			found = i + 1
		}
	}
	return found
}

func (s *script) mostlyLeader() int {
	if l := s.leader(); l != 0 && s.chance(80) {
		return l
	}
	return s.node()
}

// --- members ---

func list(from, to int) string {
	var ids []string
	for i := from; i <= to; i++ {
		ids = append(ids, strconv.Itoa(i))
	}
	return "(" + strings.Join(ids, ",") + ")"
}

func (s *script) options() string {
	var o []string
	add := func(percent int, format string, args ...any) bool {
		yes := s.chance(percent)
		if yes {
			o = append(o, fmt.Sprintf(format, args...))
		}
		return yes
	}
	if s.async {
		add(100, "async-storage-writes=true")
	}
	add(30, "inflight=%d", 1+s.r.Intn(4))
	add(40, "prevote=true")
	if add(40, "checkquorum=true") {
		add(30, "read-only=%s", s.pick("lease-based", "safe"))
	}
	if !s.changes && s.chance(10) {
		s.byteLimit = true
		add(100, "max-committed-size-per-ready=%d", 1+s.r.Intn(60))
	} else {
		add(10, "max-committed-size-per-ready=1")
	}
	add(15, "disable-conf-change-validation=true")
	add(30, "step-down-on-removal=true")
	return strings.Join(o, " ")
}

func (s *script) begin() {
	s.do("log-level %s", s.pick("debug", "debug", "debug", "info", "warn", "error"))
	voters, learners := 1+s.r.Intn(5), 0
	l := fmt.Sprintf(" voters=%s", list(1, voters))
	if s.chance(30) {
		learners = 1 + s.r.Intn(2)
		l += fmt.Sprintf(" learners=%s", list(voters+1, voters+learners))
	}
	s.do("add-nodes %d%s index=%d %s", voters+learners, l, 2+s.r.Intn(12), s.options())
}

// --- steps ---

func (s *script) tick(kind string, id int) {
	s.do("set-randomized-election-timeout %d timeout=%d", id, 3+s.r.Intn(3))
	s.do("%s %d", kind, id)
}

func (s *script) deliver() {
	l, used := "deliver-msgs", map[int]bool{}
	for k := 1 + s.r.Intn(2); k > 0; k-- {
		id := s.node()
		used[id] = true
		l += fmt.Sprintf(" %d", id)
	}
	if id := s.anyone(); s.chance(30) && !used[id] {
		l += fmt.Sprintf(" drop=(%d)", id)
	}
	if s.chance(20) {
		l += " type=" + raftpb.MessageType(s.r.Intn(24)).String()
	}
	s.do("%s", l)
}

func (s *script) confChange() {
	if s.byteLimit {
		return
	}
	s.changes = true
	l, n := fmt.Sprintf("propose-conf-change %d", s.mostlyLeader()), s.r.Intn(4)
	if s.chance(30) {
		n, l = 1, l+" v1=true"
	} else if s.chance(50) {
		l += " transition=" + s.pick("auto", "implicit", "explicit")
	}
	var in []string
	for range n {
		in = append(in, s.pick("v", "v", "l", "r", "u")+strconv.Itoa(s.anyone()))
	}
	s.change(l, strings.Join(in, " "))
}

// Nothing that is not applied is compacted: no application may do so.
func (s *script) compact(id int) {
	n := &s.env.Nodes[id-1]
	first, _ := n.FirstIndex()
	last, _ := n.LastIndex()
	last = min(last, n.BasicStatus().Applied)
	if last >= first {
		s.do("compact %d %d", id, first-uint64(s.r.Intn(2))+uint64(s.r.Intn(int(last-first)+1)))
	}
}

func (s *script) sendSnapshot() {
	from, to := s.leader(), s.node()
	if from == 0 || from == to {
		return
	}
	h := s.env.Nodes[from-1].History
	if h[len(h)-1].GetMetadata().GetIndex() > 0 {
		s.do("send-snapshot %d %d", from, to)
	}
}

// A leader goes on alone or nearly alone; the others elect one of theirs.
func (s *script) diverge() {
	l := s.leader()
	for k := 0; l != 0 && k < 4 && s.chance(70); k++ {
		s.do("propose %d lone%d", l, k)
		s.do("process-ready %d", l)
	}
	if to := s.node(); l != 0 && s.chance(50) {
		s.do("deliver-msgs %d", to)
		s.do("process-ready %d", to)
		s.do("process-append-thread %d", to)
	}
	others := s.some(l)
	next := s.pick(strings.Fields(others)...)
	s.do("forget-leader %s", next)
	s.do("campaign %s", next)
	if s.chance(30) {
		s.do("deliver-msgs drop=(%d)", max(l, 1))
	}
	s.do("stabilize %s", others)
	if s.chance(60) {
		s.do("stabilize")
	}
}

func (s *script) cutOff() {
	s.do("stabilize %s", s.some(0))
	s.do("deliver-msgs drop=(%d)", s.node())
}

func (s *script) step(i int) {
	steps := []struct {
		weight int
		do     func()
	}{
		{14, func() { s.do("propose %d prop%d", s.mostlyLeader(), i) }},
		{14, func() { s.do("process-ready %s", s.nodes(1+s.r.Intn(2))) }},
		{14, s.deliver},
		{6, func() { s.do("stabilize %s", s.nodes(1+s.r.Intn(len(s.env.Nodes)))) }},
		{5, func() { s.do("stabilize") }},
		{2, func() { s.do("stabilize log-level=%s", s.pick("none", "debug", "info")) }},
		{6, func() { s.do("process-append-thread %s", s.nodes(1+s.r.Intn(2))) }},
		{5, func() { s.do("process-apply-thread %s", s.nodes(1+s.r.Intn(2))) }},
		{7, func() { s.do("campaign %d", s.node()) }},
		{4, func() { s.tick("tick-heartbeat", s.mostlyLeader()) }},
		{5, func() { s.tick("tick-election", s.node()) }},
		{8, s.confChange},
		{4, func() { s.do("transfer-leadership from=%d to=%d", s.mostlyLeader(), s.node()) }},
		{2, func() { s.do("forget-leader %d", s.node()) }},
		{3, func() { s.do("report-unreachable %d %d", s.mostlyLeader(), s.node()) }},
		{4, func() { s.compact(s.mostlyLeader()) }},
		{2, s.sendSnapshot},
		{3, func() { s.do("duplicate-msgs %d", s.node()) }},
		{3, s.cutOff},
		{2, func() { s.do("status %d", s.mostlyLeader()) }},
		{2, func() { s.do("raft-log %d", s.node()) }},
		{2, func() { s.do("raft-state") }},
		{1, func() { s.do("log-level %s", s.pick("debug", "debug", "info", "none")) }},
		{1, func() {
			if len(s.env.Nodes) < 8 {
				s.do("add-nodes %d %s", 1+s.r.Intn(2), s.options())
			}
		}},
	}
	if s.wild && s.chance(15) {
		s.diverge()
		return
	}
	sum := 0
	for _, x := range steps {
		sum += x.weight
	}
	at := s.r.Intn(sum)
	for _, x := range steps {
		if at -= x.weight; at < 0 {
			x.do()
			return
		}
	}
}

// --- files ---

func (s *script) text() string {
	var b strings.Builder
	for _, d := range s.done {
		b.WriteString(d.line + "\n")
		if d.input != "" {
			b.WriteString(d.input + "\n")
		}
		out := strings.TrimSuffix(d.output, "\n") + "\n"
		if strings.Contains("\n"+out, "\n\n") {
			out = "----\n" + out + "----\n----\n"
		}
		b.WriteString("----\n" + out + "\n")
	}
	return b.String()
}

func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

func TestGenerate(t *testing.T) {
	folder := os.Getenv("OUT")
	if folder == "" {
		t.Skip("OUT names no folder")
	}
	first := number("FIRST", 1)
	for seed := first; seed < first+number("COUNT", 300); seed++ {
		r := rand.New(rand.NewSource(int64(seed)))
		s := &script{t: t, r: r, env: newEnv(), async: r.Intn(2) == 0, wild: r.Intn(2) == 0}
		s.begin()
		for i := range 60 + r.Intn(60) {
			s.step(i)
		}
		path := filepath.Join(folder, fmt.Sprintf("%010d.txt", seed))
		if err := os.WriteFile(path, []byte(s.text()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
