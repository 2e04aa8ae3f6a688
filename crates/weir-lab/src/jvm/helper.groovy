// Runs the scripts of a JMeter plan for virtual users of the Lab, with JMeter's own elements.
//
// Frames come by standard input and go by the original standard output: a length, then the content.
// Each user has its variables, context and elements, as a thread of JMeter has. See `frame.rs`.
import groovy.transform.CompileStatic
import java.nio.charset.StandardCharsets
import java.util.concurrent.*
import org.apache.jmeter.assertions.AssertionResult
import org.apache.jmeter.config.Argument
import org.apache.jmeter.config.Arguments
import org.apache.jmeter.control.LoopController
import org.apache.jmeter.engine.StandardJMeterEngine
import org.apache.jmeter.engine.util.CompoundVariable
import org.apache.jmeter.engine.util.ValueReplacer
import org.apache.jmeter.protocol.http.control.Header
import org.apache.jmeter.protocol.http.control.HeaderManager
import org.apache.jmeter.protocol.http.sampler.HTTPSampleResult
import org.apache.jmeter.protocol.http.sampler.HTTPSamplerProxy
import org.apache.jmeter.protocol.http.util.HTTPArgument
import org.apache.jmeter.samplers.SampleEvent
import org.apache.jmeter.samplers.SampleResult
import org.apache.jmeter.services.FileServer
import org.apache.jmeter.testbeans.TestBean
import org.apache.jmeter.testbeans.TestBeanHelper
import org.apache.jmeter.testelement.TestElement
import org.apache.jmeter.testelement.property.StringProperty
import org.apache.jmeter.threads.*
import org.apache.jmeter.util.JMeterUtils
import org.apache.jorphan.collections.ListedHashTree
import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.appender.ConsoleAppender
import org.apache.logging.log4j.core.config.Configurator
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory

/** Reads values of a frame. */
@CompileStatic
class Frame {
    final DataInputStream data
    Frame(byte[] bytes) { data = new DataInputStream(new ByteArrayInputStream(bytes)) }
    byte[] bytes() {
        int length = data.readInt()
        if (length < 0) return null
        byte[] all = new byte[length]
        data.readFully(all)
        all
    }
    String text() { byte[] all = bytes(); all == null ? null : new String(all, StandardCharsets.UTF_8) }
    int number() { data.readInt() }
    long large() { data.readLong() }
    int small() { data.readUnsignedByte() }
    /** Names and values; a value may be null. */
    Map<String, String> pairs() {
        Map<String, String> all = new LinkedHashMap<>()
        for (int left = number(); left > 0; left--) { String name = text(); all.put(name, text()) }
        all
    }
}

/** Writes values of a frame. */
@CompileStatic
class Reply {
    final ByteArrayOutputStream all = new ByteArrayOutputStream()
    final DataOutputStream data = new DataOutputStream(all)
    void bytes(byte[] value) {
        if (value == null) { data.writeInt(-1); return }
        data.writeInt(value.length)
        data.write(value)
    }
    void text(String value) { bytes(value == null ? null : value.getBytes(StandardCharsets.UTF_8)) }
    void small(int value) { data.writeByte(value) }
    void large(long value) { data.writeLong(value) }
    void pairs(Map<String, String> values) {
        data.writeInt(values.size())
        for (Map.Entry<String, String> entry : values.entrySet()) {
            text(entry.key)
            text(entry.value)
        }
    }
}

/** Variables that know which ones a script has changed. */
@CompileStatic
class Variables extends JMeterVariables {
    final Set<String> changed = new LinkedHashSet<>()
    @Override Object remove(String name) { changed.add(name); super.remove(name) }
    @Override void put(String name, String value) { changed.add(name); super.put(name, value) }
    @Override void putObject(String name, Object value) { changed.add(name); super.putObject(name, value) }
    @Override void putAll(Map<String, ?> all) { changed.addAll(all.keySet()); super.putAll(all) }
    @Override void putAll(JMeterVariables all) {
        for (Map.Entry<String, Object> entry : all.entrySet()) changed.add(entry.key)
        super.putAll(all)
    }
    void given(Map<String, String> values) {
        for (Map.Entry<String, String> entry : values.entrySet()) {
            if (entry.value == null) super.remove(entry.key) else super.put(entry.key, entry.value)
        }
    }
    /** Texts that have changed since the last call; an object is no text. */
    Map<String, String> taken() {
        Map<String, String> all = new LinkedHashMap<>()
        for (String name : changed) {
            Object value = getObject(name)
            if (value == null || value instanceof String) all.put(name, (String) value)
        }
        changed.clear()
        all
    }
}

/** Properties that know which ones a script has changed. */
@CompileStatic
class Changes extends Properties {
    static final ThreadLocal<Set<String>> NAMES = new ThreadLocal<>()
    private static void note(Object name) {
        Set<String> names = NAMES.get()
        if (names != null) names.add(String.valueOf(name))
    }
    @Override synchronized Object put(Object name, Object value) { note(name); super.put(name, value) }
    @Override synchronized Object remove(Object name) { note(name); super.remove(name) }
}

/** Stops of an engine, as flow of the current user. */
@CompileStatic
class Engine extends StandardJMeterEngine {
    static final ThreadLocal<int[]> FLOW = new ThreadLocal<>()
    static void flow(int value) {
        int[] known = FLOW.get()
        if (known != null && value > known[0]) known[0] = value
    }
    @Override synchronized void stopTest() { flow(4) }
    @Override synchronized void stopTest(boolean now) { flow(now ? 4 : 3) }
    @Override void askThreadsToStop() { flow(3) }
    @Override void exit() { flow(4) }
}

/** A thread, of which only names and the stop matter. */
@CompileStatic
class UserThread extends JMeterThread {
    UserThread(ListedHashTree tree) { super(tree, null, null) }
    @Override void stop() { Engine.flow(2) }
}

/** An element of the plan. */
@CompileStatic
class Definition {
    int role
    String type, name
    Map<String, String> properties
    List<List<String>> arguments = []
    Map<String, String> headers = [:]
    CompoundVariable function
}

/** A virtual user: a thread, as in JMeter, since functions and scripts keep values by thread. */
class User {
    final ExecutorService thread = Executors.newSingleThreadExecutor({ work ->
        def made = new Thread(work); made.daemon = true; made
    } as ThreadFactory)
    final Variables variables = new Variables()
    final Map<Integer, TestElement> elements = [:]
    JMeterContext context
    SampleResult previous
}

class Helper {
    static final int SAMPLER = 1, PRE = 2, POST = 3, ASSERTION = 4, TIMER = 5, FUNCTION = 6, LISTENER = 7, HTTP = 8
    final Map<Integer, Definition> definitions = new ConcurrentHashMap<>()
    final Map<Integer, User> users = new ConcurrentHashMap<>()
    final Map<String, ThreadGroup> groups = new ConcurrentHashMap<>()
    Engine engine
    final BlockingQueue<byte[]> replies = new LinkedBlockingQueue<>()

    void define(Frame frame) {
        def id = frame.number()
        def found = new Definition(role: frame.small(), type: frame.text(), name: frame.text(), properties: frame.pairs())
        if (found.role == HTTP) {
            frame.number().times { found.arguments << [frame.text(), frame.text(), frame.text(), frame.text()] }
            found.headers = frame.pairs()
        }
        // All functions are made before the first one is evaluated, as in JMeter: some share files.
        if (found.role == FUNCTION) found.function = new CompoundVariable(found.type)
        definitions[id] = found
    }

    /** An element of a user, made when it is first needed. */
    TestElement element(User user, int id) {
        user.elements.computeIfAbsent(id) {
            def known = definitions[id]
            def made = known.role == HTTP ? http(known) : Class.forName(known.type).getDeclaredConstructor().newInstance()
            known.properties.each { name, value -> made.setProperty(new StringProperty(name, value)) }
            made.name = known.name
            new ValueReplacer().replaceValues(made)
            made.runningVersion = true
            made
        }
    }

    HTTPSamplerProxy http(Definition known) {
        def sampler = new HTTPSamplerProxy()
        def all = new Arguments()
        known.arguments.each { given ->
            def argument = new HTTPArgument(given[0], given[1])
            argument.alwaysEncoded = given[2] == 'true'
            argument.metaData = given[3]
            all.addArgument(argument)
        }
        sampler.arguments = all
        def manager = new HeaderManager()
        known.headers.each { name, value -> manager.add(new Header(name, value)) }
        sampler.headerManager = manager
        sampler
    }

    /** What a request is after its pre-processors. */
    static void request(HTTPSamplerProxy sampler, Reply reply) {
        reply.text(sampler.method)
        reply.text(sampler.url.toString())
        def headers = sampler.headerManager
        reply.data.writeInt(headers.size())
        for (int at = 0; at < headers.size(); at++) {
            reply.text(headers.get(at).name)
            reply.text(headers.get(at).value)
        }
        def encoding = sampler.contentEncoding ?: 'UTF-8'
        def raw = sampler.sendParameterValuesAsPostBody
        if (sampler.method in ['GET', 'HEAD', 'OPTIONS', 'TRACE'] || sampler.method == 'DELETE' && !raw) {
            reply.text(null)
            reply.text(null)
        } else if (raw) {
            def body = new StringBuilder()
            sampler.arguments.each { body << it.objectValue.value }
            reply.bytes(body.toString().getBytes(encoding))
            reply.text("text/plain; charset=$encoding".toString())
        } else {
            reply.bytes(sampler.getQueryString(encoding).getBytes(encoding))
            reply.text("application/x-www-form-urlencoded; charset=$encoding".toString())
        }
    }

    static SampleResult readSample(Frame frame) {
        def label = frame.text(), code = frame.text(), message = frame.text()
        def success = frame.small() == 1
        def responseHeaders = frame.text(), requestHeaders = frame.text()
        def body = frame.bytes()
        def type = frame.text(), url = frame.text(), data = frame.text()
        def elapsed = frame.large()
        def result = url ? new HTTPSampleResult(elapsed) : new SampleResult(System.currentTimeMillis() - elapsed, elapsed)
        result.sampleLabel = label
        result.responseCode = code
        result.responseMessage = message
        result.successful = success
        result.responseHeaders = responseHeaders
        result.requestHeaders = requestHeaders
        result.responseData = body
        result.encodingAndType = type
        if (url) {
            try { result.URL = new URL(url) } catch (MalformedURLException ignored) { }
            result.HTTPMethod = frame.text()
            result.queryString = data
        } else {
            frame.text()
            result.samplerData = data
        }
        result.latency = frame.large()
        result.connectTime = frame.large()
        def bytes = frame.large()
        result.headersSize = Math.max(0, bytes - body.length) as int
        result.bodySize = body.length as long
        result.sentBytes = frame.large()
        result.threadName = Thread.currentThread().name
        result
    }

    static void writeSample(SampleResult result, Reply reply) {
        reply.text(result.sampleLabel)
        reply.text(result.responseCode)
        reply.text(result.responseMessage)
        reply.small(result.successful ? 1 : 0)
        reply.small(result.ignore ? 1 : 0)
        reply.text(result.responseHeaders)
        reply.text(result.requestHeaders)
        reply.bytes(result.responseData)
        reply.text(result.contentType)
        reply.text(result.URL == null ? null : result.URL.toString())
        reply.text(result.samplerData)
        reply.large(result.time)
        reply.large(result.latency)
        reply.large(result.connectTime)
        reply.large(result.bytesAsLong)
        reply.large(result.sentBytes)
    }

    static List<Object> state(SampleResult result) {
        if (result == null) return null
        [result.sampleLabel, result.responseCode, result.responseMessage, result.successful, result.ignore,
         System.identityHashCode(result.responseData)]
    }

    void call(Frame frame) {
        def id = frame.large()
        def number = frame.number()
        def user = users.computeIfAbsent(number) { new User() }
        def script = frame.number(), sampler = frame.number()
        def isFresh = frame.small() == 1, describes = frame.small() == 1
        def thread = frame.text(), threadNumber = frame.number(), group = frame.text()
        def iteration = frame.number()
        def variables = frame.pairs(), properties = frame.pairs()
        properties.each { name, value -> JMeterUtils.setProperty(name, value) }
        user.thread.execute {
            def reply = new Reply()
            reply.large(id)
            try {
                Thread.currentThread().name = thread
                enter(user, thread, threadNumber, group)
                while (user.variables.iteration < iteration) user.variables.incIteration()
                user.variables.given(variables)
                user.variables.changed.clear()
                if (frame.small() == 1) {
                    user.previous = readSample(frame)
                    user.context.previousResult = user.previous
                }
                // The sample of a transaction is judged, but is not the previous one.
                def judged = frame.small() == 1 ? readSample(frame) : user.previous
                run(user, judged, [script, sampler], isFresh, describes, group, reply)
            } catch (Throwable error) {
                reply = new Reply()
                reply.large(id)
                reply.small(1)
                reply.text(error.toString())
            } finally {
                Changes.NAMES.remove()
                Engine.FLOW.remove()
            }
            replies.add(reply.all.toByteArray())
        }
    }

    void enter(User user, String thread, int number, String group) {
        if (user.context == null) {
            JMeterContextService.removeContext()
            def made = JMeterContextService.context
            def tree = new ListedHashTree()
            tree.add(new LoopController())
            def own = new UserThread(tree)
            own.threadName = thread
            own.threadNum = number
            own.engine = engine
            def ofGroup = groups.computeIfAbsent(group) { def g = new ThreadGroup(); g.name = group; g }
            own.threadGroup = ofGroup
            made.variables = user.variables
            made.threadNum = number
            made.thread = own
            made.threadGroup = ofGroup
            made.engine = engine
            made.samplingStarted = true
            user.context = made
        }
        JMeterContextService.replaceContext(user.context)
        Changes.NAMES.set(new LinkedHashSet<String>())
        Engine.FLOW.set(new int[1])
    }

    void run(User user, SampleResult sample, List<Integer> ids, boolean isFresh, boolean describes, String group, Reply reply) {
        def (script, sampler) = ids
        def known = definitions[script]
        def context = user.context
        // Each sample has the sampler of the plan, without earlier changes.
        if (isFresh) user.elements.remove(sampler)
        def current = sampler < 0 ? null : element(user, sampler)
        if (current != null) context.currentSampler = current
        def before = state(sample)
        def result = new Reply()
        if (known.role == FUNCTION) {
            result.small(1)
            result.text(known.function.execute())
        } else {
            def element = element(user, script)
            if (known.role != SAMPLER && known.role != HTTP) element.recoverRunningVersion()
            element.runningVersion = true
            if (element instanceof TestBean) TestBeanHelper.prepare(element)
            switch (known.role) {
                case SAMPLER:
                    context.currentSampler = element
                    def made = element.sample(null)
                    if (made == null) { result.small(0); break }
                    sample = made
                    if (sample.threadName == '') sample.threadName = Thread.currentThread().name
                    user.previous = sample
                    context.previousResult = sample
                    before = state(sample)
                    result.small(4)
                    writeSample(sample, result)
                    break
                case PRE:
                case POST:
                    element.process()
                    result.small(0)
                    break
                case ASSERTION:
                    AssertionResult judged = element.getResult(sample)
                    result.small(3)
                    result.small(judged.failure || judged.error ? 1 : 0)
                    result.text(judged.failureMessage)
                    break
                case TIMER:
                    result.small(2)
                    result.large(element.delay())
                    break
                case LISTENER:
                    element.sampleOccurred(new SampleEvent(sample, group, user.variables))
                    result.small(0)
                    break
            }
            if (known.role == SAMPLER) element.recoverRunningVersion()
        }
        flow(user, sample)
        reply.small(0)
        reply.pairs(user.variables.taken())
        Map<String, String> properties = [:]
        Changes.NAMES.get().each { properties[it] = JMeterUtils.getProperty(it) }
        reply.pairs(properties)
        reply.small(Engine.FLOW.get()[0])
        reply.data.write(result.all.toByteArray())
        def isChanged = sample != null && state(sample) != before
        reply.small(isChanged ? 1 : 0)
        if (isChanged) writeSample(sample, reply)
        def hasRequest = describes && current instanceof HTTPSamplerProxy
        reply.small(hasRequest ? 1 : 0)
        if (hasRequest) request(current, reply)
    }

    /** What a script demands by the context or the result. */
    static void flow(User user, SampleResult result) {
        def context = user.context
        switch (context.testLogicalAction) {
            case JMeterContext.TestLogicalAction.START_NEXT_ITERATION_OF_THREAD: Engine.flow(1); break
            case JMeterContext.TestLogicalAction.START_NEXT_ITERATION_OF_CURRENT_LOOP: Engine.flow(1); break
            case JMeterContext.TestLogicalAction.BREAK_CURRENT_LOOP: Engine.flow(1); break
        }
        context.testLogicalAction = JMeterContext.TestLogicalAction.CONTINUE
        if (result != null) {
            if (result.testLogicalAction != JMeterContext.TestLogicalAction.CONTINUE) Engine.flow(1)
            result.testLogicalAction = JMeterContext.TestLogicalAction.CONTINUE
            if (result.stopThread) Engine.flow(2)
            if (result.stopTest) Engine.flow(3)
            if (result.stopTestNow) Engine.flow(4)
        }
    }

    /** Reads frames until the Lab has ended. */
    void serve(DataInputStream input, OutputStream output) {
        def writer = new Thread({ write(replies, output) })
        writer.daemon = true
        writer.start()
        while (true) {
            byte[] bytes
            try {
                bytes = new byte[input.readInt()]
                input.readFully(bytes)
            } catch (EOFException ignored) {
                return
            }
            def frame = new Frame(bytes)
            switch (frame.small()) {
                case 1: define(frame); break
                case 2: call(frame); break
                case 3: users.remove(frame.number())?.thread?.shutdown(); break
                case 4: start(frame); break
            }
        }
    }

    void start(Frame frame) {
        JMeterUtils.JMeterHome = frame.text()
        def plan = frame.text()
        JMeterUtils.loadJMeterProperties(JMeterUtils.JMeterBinDir + '/jmeter.properties')
        JMeterUtils.initLocale()
        def all = new Changes()
        all.putAll(JMeterUtils.JMeterProperties)
        def field = JMeterUtils.getDeclaredField('appProperties')
        field.accessible = true
        field.set(null, all)
        frame.pairs().each { name, value -> all.setProperty(name, value) }
        engine = new Engine()
        FileServer.fileServer.baseForScript = new File(plan).absoluteFile
        replies.add([0] * 8 as byte[])
    }

    /** Writes all replies that wait at once. */
    @CompileStatic
    static void write(BlockingQueue<byte[]> replies, OutputStream output) {
        List<byte[]> all = new ArrayList<>()
        while (true) {
            all.add(replies.take())
            replies.drainTo(all)
            ByteArrayOutputStream batch = new ByteArrayOutputStream()
            DataOutputStream data = new DataOutputStream(batch)
            for (byte[] reply : all) {
                data.writeInt(reply.length)
                data.write(reply)
            }
            output.write(batch.toByteArray())
            output.flush()
            all.clear()
        }
    }
}

def output = System.out
// What scripts print is no reply.
System.out = System.err
def builder = ConfigurationBuilderFactory.newConfigurationBuilder()
def layout = builder.newLayout('PatternLayout').addAttribute('pattern', '%d %p %c{1.}: %m%n')
def console = builder.newAppender('err', 'Console').addAttribute('target', ConsoleAppender.Target.SYSTEM_ERR).add(layout)
builder.add(console)
builder.add(builder.newRootLogger(Level.INFO).add(builder.newAppenderRef('err')))
Configurator.reconfigure(builder.build())
new Helper().serve(frames, output)
System.exit(0)
